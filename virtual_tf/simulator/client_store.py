"""The clients' states between their visits, one row a client; a client that was never selected takes no space.

Rows stay in memory, or go to files when all clients' together would not fit. A file holds one version of one client and
is never changed: clients/<client>.<version>, where the version is the number of the write that made it (in a simulation
the round). A manifest, {client: version}, is therefore a snapshot of all clients, and costs a few bytes each.
"""
import numpy as np
import tensorflow as tf

from virtual_tf.core import safe_files
from virtual_tf.core.errors import VirtualTfError

MEMORY_BUDGET = 2 ** 30   # bytes of client states that store=auto keeps in memory


class ClientStore:
    """States by client. `fresh(ids)` makes the states of clients that were never written.

    Without `in_memory`, every write goes to files in `folder` at once; with it, only `save` writes, what has changed.
    """

    def __init__(self, fresh, folder=None, in_memory=True):
        self._fresh, self._folder, self._in_memory = fresh, folder, in_memory
        self._structure = None
        self._rows = {}             # client → leaves, of those that are in memory
        self._versions = {}         # client → version
        self._version = 0           # number of writes
        self._unsaved = set()       # clients whose version is in memory alone
        self._unsynced = set()      # files that a power failure could still take
        self._superseded = []       # (client, version) that only a kept manifest needs
        self._kept = ()             # manifests that may be restored
        if not in_memory:
            folder.mkdir(parents=True, exist_ok=True)

    def __contains__(self, client):
        return client in self._versions

    def contributors(self):
        """Clients that have trained, in ascending order."""
        return sorted(self._versions)

    def read(self, ids):
        """States of these clients, stacked [C, …]."""
        ids = [int(i) for i in ids]
        new = [i for i in ids if i not in self._versions]
        rows = dict(zip(new, self._make_rows(self._fresh(new), len(new)))) if new else {}
        if self._structure is None:
            self._make_rows(self._fresh(ids[:1]), 1)
        rows |= {i: self._row(i) for i in ids if i not in rows}
        return tf.nest.pack_sequence_as(self._structure, [np.stack(leaves) for leaves in zip(*(rows[i] for i in ids))])

    def write(self, ids, states):
        """New states [C, …] of these clients."""
        self._version += 1
        ids = [int(i) for i in ids]
        superseded = [(i, self._versions[i]) for i in ids if i in self._versions]
        for i, row in zip(ids, self._make_rows(states, len(ids))):
            # A copy, so that a row in memory does not keep its whole cohort alive.
            self._rows[i] = [leaf.copy() for leaf in row] if self._in_memory else row
            self._versions[i] = self._version
            self._unsaved.add(i)
        if not self._in_memory:
            self._write_files()
            self._rows.clear()
        self._superseded += self._remove_unneeded(superseded)

    def save(self):
        """Brings all states safely to files, of which only changed ones need it; returns the manifest."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._write_files()
        for path in self._unsynced:
            safe_files.sync(path)
        safe_files.sync(self._folder)
        self._unsynced.clear()
        return dict(self._versions)

    def keep(self, manifests):
        """From now on, versions that are neither current nor in one of these manifests are removed."""
        self._kept = tuple(manifests)
        self._superseded = self._remove_unneeded(self._superseded)

    def restore(self, manifest, kept):
        """Goes back to a manifest and removes the files that neither it nor one of the `kept` ones refers to."""
        self._rows, self._unsaved, self._unsynced = {}, set(), set()
        self._versions, self._kept = dict(manifest), (manifest, *kept)
        self._version = max(manifest.values(), default=0)
        found = [tuple(map(int, path.name.split('.'))) for path in self._folder.glob('[0-9]*.[0-9]*')]
        self._superseded = self._remove_unneeded(
            [(client, version) for client, version in found if manifest.get(client) != version])

    def _row(self, i):
        if i in self._rows:
            return self._rows[i]
        try:
            row = _read_file(self._folder, i, self._versions[i])
        except safe_files.DamagedFileError as error:
            raise safe_files.DamagedFileError(f'{error}; the same command, given again, goes back to a checkpoint '
                                              'without that file') from error
        if self._in_memory:
            self._rows[i] = row
        return row

    def _write_files(self):
        # No rename: until a manifest names a version, nobody looks at its file.
        for i in sorted(self._unsaved):
            self._unsynced.add(path_of(self._folder, i, self._versions[i]))
            write_file(self._folder, i, self._versions[i], self._rows[i])
        self._unsaved.clear()

    def _remove_unneeded(self, superseded):
        """Removes the files of these versions; returns those that a kept manifest still needs."""
        needed = []
        for client, version in superseded:
            if any(manifest.get(client) == version for manifest in self._kept):
                needed.append((client, version))
            elif self._folder is not None:
                path = path_of(self._folder, client, version)
                path.unlink(missing_ok=True)
                self._unsynced.discard(path)
        return needed

    def _make_rows(self, states, count):
        """A list of leaves for each client, views of the states."""
        self._structure = tf.nest.map_structure(lambda leaf: 0, states)
        leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(states)]
        return [[leaf[i] for leaf in leaves] for i in range(count)]


def verify(folder, manifest):
    """Raises DamagedFileError unless every file of the manifest is whole; holds one at a time."""
    for client, version in manifest.items():
        _read_file(folder, client, version)


def read_one(folder, client, version, structure):
    """The state [1, …] of one client, from its file alone; `structure` is a nest like it."""
    leaves = _read_file(folder, client, version)
    return tf.nest.pack_sequence_as(structure, [tf.constant(leaf[np.newaxis]) for leaf in leaves])


def path_of(folder, client, version):
    return folder / f'{client}.{version}'


def write_file(folder, client, version, leaves):
    with open(path_of(folder, client, version), 'wb') as file:
        safe_files.write_record(file, {'client': client, 'version': version}, leaves)


def _read_file(folder, client, version):
    path = path_of(folder, client, version)
    header, leaves = safe_files.read_record(path)
    if header != {'client': client, 'version': version}:
        raise safe_files.DamagedFileError(f'{path} is damaged: it holds {header}')
    return leaves


def open_store(fresh, clients, kind, folder=None):
    """The ClientStore of so many clients: kind is memory, disk, or auto, which is memory while all states fit."""
    if kind == 'disk' and folder is None:
        raise VirtualTfError('store=disk needs the folder of a run to put its files in; use store=memory')
    if kind == 'auto':
        one = sum(np.asarray(leaf).nbytes for leaf in tf.nest.flatten(fresh([0])))
        kind = 'memory' if folder is None or clients * one <= MEMORY_BUDGET else 'disk'
    return ClientStore(fresh, folder, in_memory=kind == 'memory')
