"""Files that a crash cannot tear: replaced whole or not at all, and records of arrays with a checksum.

A record is  magic, format version, length of the header | header as JSON | arrays, one after the other | SHA-256 of all
before. Nothing in it is code, so reading one from a stranger runs nothing.
"""
import contextlib
import fcntl
import hashlib
import json
import os
import struct

import numpy as np
from absl import logging

from virtual_tf.core.errors import RunError, VirtualTfError

_MAGIC, _FORMAT = b'VTFRECRD', 1
_PREFIX = struct.Struct('<8sII')
_DIGEST_BYTES = hashlib.sha256().digest_size


class DamagedFileError(RunError):
    """A record that is missing, or is not what was written."""


@contextlib.contextmanager
def replacing(path):
    """A binary file to write to that takes the place of `path` when all of it is on the disk."""
    temporary = path.with_name(path.name + '.tmp')
    try:
        with open(temporary, 'wb') as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def sync(path):
    """Waits until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(folder, kind='output folder', remedy='choose another output_dir'):
    """Holds the folder for this process; the lock goes with the process, however that ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise VirtualTfError(f'{kind} {folder} is in use by another run; wait until that has ended, or '
                                 f'{remedy}') from None
        except OSError as error:
            # Some network file systems have no locks; a run there is as safe as its user is careful.
            logging.warning('%s cannot be locked (%s): do not start a second run there', folder, error.strerror)
        yield
    finally:
        os.close(descriptor)


def check_writable(folder, flag='output_dir'):
    """Makes the folder and a file in it, or says why that cannot be and which flag names another."""
    probe = folder / '.writable'
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise VirtualTfError(f'output folder {folder} cannot be written ({error.strerror}); choose another '
                             f'{flag}') from None


def write_record(file, header, arrays):
    """Writes a dict for JSON and a list of arrays to a binary file."""
    arrays = [np.asarray(array, order='C') for array in arrays]
    described = {'header': header, 'arrays': [[array.dtype.str, list(array.shape)] for array in arrays]}
    text = json.dumps(described, allow_nan=False).encode()
    contents = (array.reshape(-1).view(np.uint8) for array in arrays)
    body = b''.join((_PREFIX.pack(_MAGIC, _FORMAT, len(text)), text, *contents))
    file.write(body)
    file.write(hashlib.sha256(body).digest())


def read_record(path):
    """(header, list of arrays that are read-only) of a record that is whole, else DamagedFileError."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DamagedFileError(f'{path} is missing') from None
    body = memoryview(content)[:-_DIGEST_BYTES]
    if len(body) < _PREFIX.size or hashlib.sha256(body).digest() != content[-_DIGEST_BYTES:]:
        raise DamagedFileError(f'{path} is damaged: its checksum does not fit its {len(content)} bytes')
    magic, version, length = _PREFIX.unpack_from(body)
    if (magic, version) != (_MAGIC, _FORMAT):
        raise VirtualTfError(f'{path} is a file of another kind or version of virtual_tf ({magic!r}, {version}); '
                             f'this one reads {_MAGIC!r}, {_FORMAT}')
    described = json.loads(bytes(body[_PREFIX.size:_PREFIX.size + length]))
    arrays, position = [], _PREFIX.size + length
    for dtype, shape in described['arrays']:
        array = np.frombuffer(body, dtype, int(np.prod(shape, dtype=np.int64)), position).reshape(shape)
        arrays.append(array)
        position += array.nbytes
    return described['header'], arrays
