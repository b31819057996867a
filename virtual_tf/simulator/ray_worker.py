"""A worker of a run over many machines: trains, commits and tests groups of clients, as an actor of Ray.

It is told which clients in which versions, and holds nothing that another could not take over: states are in files
(shared_store.py), and what it has trained but not committed is trained anew elsewhere if it dies.
"""
import importlib
import os
import pathlib
import threading
import time

import numpy as np
import tensorflow as tf

from virtual_tf.core import encoding, plugins
from virtual_tf.core.client_axis import take
from virtual_tf.core.errors import RunError
from virtual_tf.methods import registry
from virtual_tf.simulator import rounds, shared_store, side_by_side
from virtual_tf.simulator.evaluation import Evaluator


class Worker:
    """Answers of `do` are arrays and numbers; groups may come in several threads at a time."""

    def __init__(self, cores):
        # More operations side by side would take the cores of others; groups have a thread each already.
        tf.config.threading.set_inter_op_parallelism_threads(cores)
        self._cores, self._lock = cores, threading.Lock()

    def do(self, name, *arguments):
        """(seconds, what the method gives)"""
        started = time.perf_counter()
        found = getattr(self, name)(*arguments)
        return time.perf_counter() - started, found

    def pid(self):
        return os.getpid()

    def sees(self, path):
        """Whether a file of the driver's is there, and another can be put beside it."""
        path = pathlib.Path(path)
        mine = path.with_name(f'{path.name}-{os.getpid()}')
        try:
            mine.touch()
            mine.unlink()
        except OSError:
            return False
        return path.exists()

    def open(self, dataset, settings, plugin_files, folder, per_call):
        """Builds what a run needs; calls have `per_call` clients."""
        for path in plugin_files:
            plugins.load(path)
        self._dataset, self._per_call = dataset, per_call
        side_by_side.prepare(registry.with_compiler(settings.replace(threads=self._cores)))
        # Groups come in threads of their own, so none is split further.
        self._network, self._algorithm, self._settings = registry.build(settings.replace(threads=1), dataset)
        self._evaluators = {prefix: Evaluator(self._network, self._algorithm, split, self._settings)
                            for prefix, split in dataset.tested().items()}
        first = self._algorithm.init(settings.seed)
        fresh = rounds.fresh_clients(self._algorithm, dataset, self._settings, first)
        self._store = shared_store.WorkerStore(
            fresh, pathlib.Path(folder), shared_store.rows_in_memory(fresh, settings.store))
        self._structure = first
        self._server, self._server_number = None, None
        self._trained, self._delta, self._number = [], None, None

    def train(self, number, ids, versions, server):
        """client_update of a group in a round, which is kept for `delta` and `commit`; (columns of it, traffic)."""
        if self._number != number:
            self._begin(number)
        padded, state = self._pad(ids), self._server_of(*server)
        clients = self._store.read_versions(padded, self._pad(versions))
        cohort = self._dataset.cohort(np.array(padded), number, self._settings)
        try:
            trained = (clients, *self._algorithm.client_update(state, clients, cohort))
        except (MemoryError, tf.errors.ResourceExhaustedError) as error:
            raise RunError(f'round {number}: {self._per_call} clients in a call do not fit into a worker\'s memory; '
                           f'continue with --clients_per_call={max(1, self._per_call // 2)}, --threads=1 or fewer '
                           'workers on a machine') from error
        if len(padded) > len(ids):
            trained = tuple(take(part, np.arange(len(ids))) for part in trained)
        _, _, deltas, training = trained
        summed = [np.asarray(leaf, np.float64) for leaf in tf.nest.flatten(
            self._algorithm.aggregate(deltas, training.accepted))]
        with self._lock:
            self._trained.append((ids, *trained))
            self._delta = [a + b for a, b in zip(self._delta, summed)] if self._delta else summed
        columns = tf.nest.map_structure(np.asarray, training)
        return columns, np.asarray(cohort.size)[:len(ids)], encoding.traffic_up(
            deltas, columns.accepted, self._settings.values)

    def _begin(self, number):
        with self._lock:
            if self._number != number:
                self._trained, self._delta, self._number = [], None, number

    def delta(self):
        """Leaves of the one delta that is the sum over the accepted clients of all groups of the round."""
        return [leaf.astype(np.float32) for leaf in self._delta]

    def commit(self, shrink, version):
        """Files with the new states of the accepted clients of all groups of the round; can be asked for again."""
        shrink = _fetch(shrink)

        def write(group):
            ids, clients, proposals, deltas, training = group
            states = self._algorithm.commit(clients, proposals, deltas, shrink, training.accepted)
            rows = np.flatnonzero(training.accepted)
            self._store.write_version([ids[row] for row in rows], take(states, rows), version)

        side_by_side.map_groups(write, self._trained, self._cores)

    def measure(self, ids, versions):
        """{model: sums of each metric [C, …]} of these clients' own models, also on held-out data."""
        padded = self._pad(ids)
        clients = self._store.read_versions(padded, self._pad(versions))
        return {f'{prefix}{name}': found.take(np.arange(len(ids)))
                for prefix, evaluator in self._evaluators.items()
                for name, found in evaluator.clients(clients, np.array(padded)).items()}

    def measure_server(self, prefix, chunks, server):
        """Evaluator.server_part of some chunks of the split with this prefix."""
        return self._evaluators[prefix].server_part(self._server_of(*server), chunks)

    def sync(self):
        return self._store.sync()

    def _pad(self, values):
        """All calls have one shape; what is padded is a repetition, and is dropped."""
        return [*values, *[values[-1]] * (self._per_call - len(values))]

    def _server_of(self, number, reference):
        """The server's state after that round; fetched once."""
        with self._lock:
            if self._server_number != number:
                leaves = _fetch(reference)
                self._server = tf.nest.pack_sequence_as(self._structure, [tf.constant(leaf) for leaf in leaves])
                self._server_number = number
            return self._server


def _fetch(reference):
    """What Pool.put has put."""
    return importlib.import_module('ray').get(reference[0])
