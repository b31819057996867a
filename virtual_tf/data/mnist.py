"""`mnist` and `pmnist`: 100 clients with 600 training and 100 test digits each, by a seeded random split.

`pmnist` permutes the pixels of each client by a permutation of its own (Goodfellow et al. 2013).
"""
import gzip
import zlib

import numpy as np

from virtual_tf.data.download import RemoteFile, fetch
from virtual_tf.data.federated import SPLIT, DataError, FederatedDataset, Split
from virtual_tf.streams import make_generator

CLIENTS = 100
_URL = 'https://storage.googleapis.com/cvdf-datasets/mnist/'
# Sizes and checksums are those that tensorflow-datasets publishes for `mnist`.
FILES = tuple(RemoteFile(name, _URL + name, size, sha256) for name, size, sha256 in (
    ('train-images-idx3-ubyte.gz', 9912422, '440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609'),
    ('train-labels-idx1-ubyte.gz', 28881, '3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c'),
    ('t10k-images-idx3-ubyte.gz', 1648877, '8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6'),
    ('t10k-labels-idx1-ubyte.gz', 4542, 'f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6')))

_DTYPES = {0x08: '>u1', 0x0C: '>i4'}


def read_idx(path):
    """An idx file, gzipped, as an array of its declared shape."""
    try:
        with gzip.open(path) as stream:
            content = stream.read()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f'{path} is not a complete gzip file ({error}); fetch it again') from error
    if len(content) < 4 or content[:2] != b'\0\0' or content[2] not in _DTYPES:
        raise DataError(f'{path} does not start like an idx file; fetch it again')
    rank = content[3]
    shape = tuple(np.frombuffer(content, '>i4', rank, offset=4)) if len(content) >= 4 + 4 * rank else ()
    values = np.frombuffer(content, _DTYPES[content[2]], offset=4 + 4 * rank) if shape else np.empty(0)
    if not shape or values.size != np.prod(shape):
        raise DataError(f'{path} promises {shape} values and holds {values.size}; fetch it again')
    return values.reshape(shape)


def read_images(data_dir):
    """((x, y), (x, y)) of MNIST's training and test digits: images [N, 28, 28, 1] in [0, 1], int32 labels."""
    arrays = [read_idx(path) for path in fetch(data_dir, 'mnist', FILES)]
    parts = []
    for images, labels in (arrays[:2], arrays[2:]):
        if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
            raise DataError(f'the MNIST files under {data_dir} have shapes {images.shape} and {labels.shape}; '
                            'fetch them again')
        parts.append(((images[..., np.newaxis] / np.float32(255)).astype(np.float32), labels.astype(np.int32)))
    return parts


def load(data_dir, settings):
    generator = make_generator(settings.seed, SPLIT)
    orders = None
    if settings.dataset == 'pmnist':
        orders = [generator.permutation(28 * 28) for _ in range(CLIENTS)]
    splits = []
    for x, y in read_images(data_dir):
        rows = generator.permutation(len(y)).reshape(CLIENTS, -1)
        pairs = [(x[own], y[own]) for own in rows]
        if orders:
            pairs = [(own.reshape(len(own), -1)[:, order].reshape(own.shape), labels)
                     for (own, labels), order in zip(pairs, orders)]
        splits.append(Split.of(pairs))
    names = tuple(f'{settings.dataset} {i}' for i in range(CLIENTS))
    return FederatedDataset(settings.dataset, names, *splits, 10)
