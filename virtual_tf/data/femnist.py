"""`femnist`: the digits of EMNIST by writer (Caldas et al. 2018), from TensorFlow Federated or from LEAF.

Training and test digits of each writer come with either: TFF's HDF5 files with /examples/<writer>/pixels and label, or
else LEAF json in train/ and test/, whose letters are left out. 1 is the background, ink goes towards 0.
"""
import dataclasses

import numpy as np

from virtual_tf.core.random_streams import CHOICE, make_generator
from virtual_tf.data import hdf5, own, prepared
from virtual_tf.data.download import RemoteFile, fetch_unpacked, folder_of
from virtual_tf.data.example_table import Table, choose, federate
from virtual_tf.data.federated import DataError

NAMES = ('fed_emnist_digitsonly_train.h5', 'fed_emnist_digitsonly_test.h5')
ARCHIVE = RemoteFile('fed_emnist_digitsonly.tar.bz2',
                     'https://storage.googleapis.com/tff-datasets-public/fed_emnist_digitsonly.tar.bz2',
                     '55333deb8546765427c385710ca5e7301e16f4ed8b60c1dc5ae224b42bd5b14b')
MIN_DIGITS = 50   # to train on, of a writer in LEAF's files, some of whom have next to none


def load(data_dir, settings):
    """x: [N, 28, 28, 1] in [0, 1]; max_clients writers by seed."""
    folder = folder_of(data_dir, 'femnist')
    if own.leaf_files(folder) and not any((folder / name).is_file() for name in (*NAMES, ARCHIVE.name)):
        table = prepared.load(data_dir, 'femnist', own.leaf_files(folder), lambda: read_leaf(folder), form='leaf')
        return _choose_writers(federate('femnist', table, settings.seed), folder, settings)
    paths = fetch_unpacked(data_dir, 'femnist', NAMES, ARCHIVE, settings.download)
    table = prepared.load(data_dir, 'femnist', paths, lambda: read(paths, settings),
                          max_clients=settings.max_clients, seed=settings.seed)
    return federate('femnist', table, settings.seed)


def read(paths, settings):
    """The Table of the writers that the seed chooses."""
    with hdf5.open_examples(paths[0]) as train, hdf5.open_examples(paths[1]) as test:
        writers = hdf5.common_clients(train, test, paths)
        chosen = choose(len(writers), settings.max_clients, make_generator(settings.seed, CHOICE))
        writers = [writers[i] for i in chosen]
        parts = [[_digits(group[writer], writer, path) for writer in writers]
                 for group, path in zip((train, test), paths)]
    x, y = (np.concatenate([pair[i] for part in parts for pair in part]) for i in range(2))
    sizes = [[len(labels) for _, labels in part] for part in parts]
    client = np.concatenate([np.repeat(np.arange(len(writers)), part) for part in sizes])
    is_test = np.repeat([False, True], [sum(part) for part in sizes])
    return Table(x[..., np.newaxis], y, client, tuple(f'writer {writer}' for writer in writers), 10, is_test)


def read_leaf(folder):
    """The Table of all writers in LEAF's files, in the order of their ids."""
    table = own.read_leaf(folder, num_classes=10)
    if table.y.ndim > 1 or table.x.shape[1:] not in ((784,), (28, 28, 1)):
        raise DataError(f'{folder} has examples of shape {table.x.shape[1:]} where digits have 784 pixels; put LEAF\'s '
                        'femnist there')
    low, high = table.x.min(initial=0), table.x.max(initial=1)
    if low < 0 or high > 1:
        raise DataError(f'{folder} has pixels from {low:g} to {high:g}, outside [0, 1]; put LEAF\'s femnist there')
    order = np.argsort(table.names)
    return table._replace(x=table.x.reshape(-1, 28, 28, 1), client=np.argsort(order)[table.client],
                          names=tuple(f'writer {table.names[i]}' for i in order))


def _choose_writers(dataset, folder, settings):
    eligible = np.flatnonzero((dataset.train.sizes() >= MIN_DIGITS) & (dataset.test.sizes() > 0))
    if not len(eligible):
        raise DataError(f'no writer of {folder} has {MIN_DIGITS} digits to train on and one to test; put more of '
                        'LEAF\'s femnist there, split by sample')
    chosen = eligible[choose(len(eligible), settings.max_clients, make_generator(settings.seed, CHOICE))]
    drawn = f', drawn from {len(eligible)}' if len(chosen) < len(eligible) else ''
    return dataclasses.replace(dataset.part(chosen), caveat=f'FEMNIST digits (LEAF, {len(chosen)} writers){drawn}')


def _digits(group, writer, path):
    """pixels [n, 28, 28], labels [n] of one writer in one file."""
    pixels, label = (hdf5.values(group, key, writer, path) for key in ('pixels', 'label'))
    if pixels.shape[1:] != (28, 28) or label.shape != pixels.shape[:1] or not len(label):
        raise DataError(f'{path} has pixels {pixels.shape} and labels {label.shape} for writer {writer}; fetch '
                        f'{ARCHIVE.url} again')
    if label.min() < 0 or label.max() > 9 or not (pixels.min() >= 0 and pixels.max() <= 1):
        raise DataError(f'{path} has labels outside 0 to 9 or pixels outside [0, 1] for writer {writer}; fetch '
                        f'{ARCHIVE.url} again')
    return pixels.astype(np.float32), label.astype(np.int32)
