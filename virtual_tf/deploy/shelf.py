"""A client's shelf in a folder of its own; nothing of it is ever sent.

    <folder>/state.<version>      the client's state as of a head
    <folder>/pending.<version>    what it has found and told the server
    <folder>/agreed               the newest version that was ordered

Each file is a record with a checksum that takes its place whole or not at all, and is then never changed.
"""
import tensorflow as tf

from virtual_tf.core import safe_files
from virtual_tf.deploy.protocol import START, Pending, Shelf


class FolderShelf(Shelf):
    """States are nests like that of make_start(); the content of a pending one is (dict for JSON, list of arrays)."""

    def __init__(self, folder, make_start):
        self._folder, self._make_start = folder, make_start
        folder.mkdir(parents=True, exist_ok=True)

    def last(self):
        path = self._folder / 'agreed'
        return safe_files.read_record(path)[0]['version'] if path.exists() else START

    def state(self, version):
        if version == START:
            return self._make_start()
        path = self._path('state', version)
        return tf.nest.pack_sequence_as(self._make_start(), safe_files.read_record(path)[1]) if path.exists() else None

    def pending(self, version):
        path = self._path('pending', version)
        if not path.exists():
            return None
        header, arrays = safe_files.read_record(path)
        return Pending(header['base'], (header['content'], arrays))

    def put_state(self, version, state):
        self._write(self._path('state', version), {}, tf.nest.flatten(state))

    def put_pending(self, version, pending):
        header, arrays = pending.content
        self._write(self._path('pending', version), {'base': pending.base, 'content': header}, arrays)

    def agree(self, version):
        self._write(self._folder / 'agreed', {'version': version}, [])

    def keep(self, versions):
        pending = (self._versions('pending') & versions) - self._versions('state')
        needed = {*versions, *(self.pending(version).base for version in pending)}
        for kind, kept in (('pending', pending), ('state', needed)):
            for version in self._versions(kind) - kept:
                self._path(kind, version).unlink()

    def _versions(self, kind):
        return {int(path.name.split('.')[1]) for path in self._folder.glob(f'{kind}.*') if path.suffix != '.tmp'}

    def _path(self, kind, version):
        return self._folder / f'{kind}.{version}'

    def _write(self, path, header, arrays):
        with safe_files.replacing(path) as file:
            safe_files.write_record(file, header, arrays)
