"""The clients' states between their visits, one row a client; a client that was never selected takes no space."""
import numpy as np
import tensorflow as tf


class ClientStore:
    """States in memory. `fresh(ids)` makes the states of clients that were never written."""

    def __init__(self, fresh):
        self._fresh = fresh
        self._rows = {}

    def __contains__(self, client):
        return client in self._rows

    def read(self, ids):
        """States of these clients, stacked [C, …]."""
        new = [i for i in ids if i not in self._rows]
        if new:
            made = self._fresh(new)
            rows = dict(zip(new, _rows(made, len(new)))) | self._rows
            self._structure = made
        else:
            rows = self._rows
        leaves = [np.stack(values) for values in zip(*(rows[i] for i in ids))]
        return tf.nest.pack_sequence_as(self._structure, leaves)

    def write(self, ids, states):
        self._structure = states
        self._rows.update(zip(ids, _rows(states, len(ids))))


def _rows(states, count):
    """A list of leaves for each client; copies, so that a row does not keep its whole cohort alive."""
    leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(states)]
    return [[leaf[i].copy() for leaf in leaves] for i in range(count)]
