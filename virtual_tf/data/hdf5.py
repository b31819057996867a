"""TensorFlow Federated's HDF5 files: /examples/<client>/<column>."""
import contextlib

import h5py

from virtual_tf.data.federated import DataError


@contextlib.contextmanager
def open_examples(path):
    """The group of all clients."""
    try:
        file = h5py.File(path, 'r')
    except OSError as error:
        raise DataError(f'{path} is not a complete HDF5 file ({error}); delete it and fetch it again') from error
    with file:
        if 'examples' not in file:
            raise DataError(f'{path} has no group /examples; delete it and fetch it again')
        yield file['examples']


def common_clients(train, test, paths):
    """Client ids in their order; both files have to have the same."""
    names, others = list(train), list(test)
    missing = sorted(set(names) ^ set(others))
    if missing or not names:
        what = f'client {missing[0]!r} is in only one of' if missing else 'there are no clients in'
        raise DataError(f'{what} {paths[0]} and {paths[1]}; fetch both again')
    return sorted(names)


def values(group, column, client, path):
    """A column of a client."""
    if column not in group:
        raise DataError(f'{path} has no {column} for client {client!r}; delete it and fetch it again')
    try:
        return group[column][()]
    except OSError as error:
        raise DataError(f'{path} is damaged at client {client!r} ({error}); delete it and fetch it again') from error
