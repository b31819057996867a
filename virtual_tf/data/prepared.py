"""The prepared form of raw files on disk, so that a second start need not parse them again.

A file holds one Table. Its name follows from data set and options; inside it says which raw files, by size and time,
and which format it was made of. Whatever does not match or cannot be read is made anew.
"""
import hashlib
import json
import os
import pathlib
import zipfile
import zlib

import numpy as np
from absl import logging

from virtual_tf.data.download import DATA_DIR, is_writable
from virtual_tf.data.example_table import Table

FORMAT = 2   # to be raised whenever a loader prepares the same files differently


def load(data_dir, name, sources, prepare, **options):
    """The Table that prepare() makes of the source files, or made of them with these options before."""
    options = json.dumps([name, options], sort_keys=True)
    identity = json.dumps([FORMAT, options, [_identity(path) for path in sources]])
    file_name = f'{name}-{hashlib.sha256(options.encode()).hexdigest()[:12]}.npz'
    folders = _folders(data_dir)
    for folder in folders:
        table = _read(folder / file_name, identity)
        if table is not None:
            return table
    table = prepare()
    for folder in folders:
        if _write(folder / file_name, identity, table):
            break
    return table


def _folders(data_dir):
    """Where prepared forms may be, the place for new ones first."""
    root, home = (pathlib.Path(path).expanduser() for path in (data_dir, DATA_DIR))
    return [folder / 'prepared' for folder in ((root, home) if is_writable(root) else (home,))]


def _identity(path):
    status = os.stat(path)
    return [str(pathlib.Path(path).resolve()), status.st_size, status.st_mtime_ns]


def _read(path, identity):
    """The Table in this file; None when there is none of this identity, or when the file is damaged."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            if str(file['identity']) != identity:
                return None
            values = {key: file[key] for key in file.files if key != 'identity'}
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        logging.warning('%s cannot be read (%s); it will be made again', path, error)
        return None
    return Table(**values | {
        'names': tuple(values['names'].tolist()), 'notes': tuple(values['notes'].tolist()),
        'caveat': str(values['caveat']), 'num_classes': int(values['num_classes'])})


def _write(path, identity, table):
    """Puts the whole file in place at once; False where that is not possible."""
    values = {key: np.asarray(value) for key, value in table._asdict().items() if value is not None}
    # An empty tuple would become an array of floats.
    values |= {key: np.asarray(getattr(table, key), str) for key in ('names', 'notes')}
    partial = path.with_name(f'.{path.name}.{os.getpid()}')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(partial, 'wb') as stream:
                np.savez(stream, identity=np.asarray(identity), **values)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        logging.warning('the prepared form cannot be written to %s (%s)', path, error)
        return False
    return True
