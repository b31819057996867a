"""The clients' states of a run over many workers: files in a folder that all of them see.

A worker writes each state that it commits to a file at once, under the rules of client_store.py, and keeps it in memory
as far as that goes. The driver holds no state: it knows which version of each client counts, and tells the workers.
So a worker can die at any time, and any other can go on with its clients.
"""
import threading

import numpy as np
import tensorflow as tf

from virtual_tf.core import safe_files
from virtual_tf.simulator import client_store
from virtual_tf.simulator.client_store import ClientStore


def rows_in_memory(fresh, kind):
    """How many clients' states a worker may hold in memory, of kind memory, disk or auto; None for any number."""
    one = sum(np.asarray(leaf).nbytes for leaf in tf.nest.flatten(fresh([0])))
    return {'memory': None, 'disk': 0, 'auto': client_store.MEMORY_BUDGET // max(1, one)}[kind]


class SharedStore(ClientStore):
    """The driver's: reads from files. sync() asks the workers to bring their files to the disk; it gives those."""

    def __init__(self, fresh, folder, sync):
        super().__init__(fresh, folder, in_memory=False)
        self._sync = sync

    def versions(self, ids):
        """The version of each client that counts; 0 for one that has never trained."""
        return [self._versions.get(int(i), 0) for i in ids]

    @property
    def next_version(self):
        return self._version + 1

    def written(self, ids):
        """From now on the next version of these clients counts, whose files workers have written."""
        self._version += 1
        ids = [int(i) for i in ids]
        superseded = [(i, self._versions[i]) for i in ids if i in self._versions]
        for i in ids:
            self._versions[i] = self._version
            self._unsynced.add(client_store.path_of(self._folder, i, self._version))
        self._superseded += self._remove_unneeded(superseded)

    def save(self):
        # What is left was written by a worker that is gone.
        self._unsynced -= {client_store.path_of(self._folder, *written) for written in self._sync()}
        return super().save()


class WorkerStore(ClientStore):
    """A worker's: the driver says which versions count; threads may read and write different clients."""

    def __init__(self, fresh, folder, most_rows):
        super().__init__(fresh, folder, in_memory=most_rows != 0)
        self._most_rows = most_rows
        self._lock = threading.RLock()
        self._written = set()       # (client, version) that a power failure could still take

    def read_versions(self, ids, versions):
        """States of these clients in these versions, stacked [C, …]; from memory if it has them."""
        with self._lock:
            for i, version in zip(ids, versions):
                if self._versions.get(i, 0) != version:
                    self._rows.pop(i, None)
                    self._versions.pop(i, None)
                if version:
                    self._versions[i] = version
            states = self.read(ids)
            self._trim()
        return states

    def write_version(self, ids, states, version):
        """Files of these clients' new states [C, …]."""
        for i, row in zip(ids, self._make_rows(states, len(ids))):
            client_store.write_file(self._folder, i, version, row)
            with self._lock:
                self._rows.pop(i, None)     # the last to be trimmed
                if self._in_memory:
                    # A copy, so that a row in memory does not keep its whole group alive.
                    self._rows[i] = [leaf.copy() for leaf in row]
                self._versions[i] = version
                self._written.add((i, version))
                self._trim()

    def sync(self):
        """Brings to the disk what was written; returns [(client, version), …] that is there."""
        with self._lock:
            written, self._written = self._written, set()
        safe = []
        for client, version in sorted(written):
            try:
                safe_files.sync(client_store.path_of(self._folder, client, version))
            except FileNotFoundError:     # superseded by now
                continue
            safe.append((client, version))
        return safe

    def _trim(self):
        while self._most_rows is not None and len(self._rows) > self._most_rows:
            del self._rows[next(iter(self._rows))]
