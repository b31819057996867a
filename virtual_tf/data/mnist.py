"""`mnist` and `pmnist`: 100 clients with 600 training and 100 test digits each, by a seeded random split.

`pmnist` permutes the pixels of each client by a permutation of its own (Goodfellow et al. 2013).
"""
import gzip
import zlib

import numpy as np

from virtual_tf.core.random_streams import SPLIT, make_generator
from virtual_tf.data.download import RemoteFile, fetch
from virtual_tf.data.federated import DataError, FederatedDataset, Split

CLIENTS = 100
_URL = 'https://storage.googleapis.com/cvdf-datasets/mnist/'
# The checksums are those that tensorflow-datasets publishes for `mnist`.
FILES = {part: tuple(RemoteFile(name, _URL + name, sha256) for name, sha256 in names) for part, names in (
    ('train', (
        ('train-images-idx3-ubyte.gz', '440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609'),
        ('train-labels-idx1-ubyte.gz', '3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c'))),
    ('t10k', (
        ('t10k-images-idx3-ubyte.gz', '8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6'),
        ('t10k-labels-idx1-ubyte.gz', 'f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6'))))}

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


def read_part(data_dir, part, download=True):
    """Bytes [N, 28, 28] and int32 labels [N] of `train` or `t10k`."""
    images, labels = (read_idx(path) for path in fetch(data_dir, 'mnist', FILES[part], download))
    if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
        raise DataError(f'the {part} files of MNIST under {data_dir} have shapes {images.shape} and {labels.shape}; '
                        'fetch them again')
    if labels.max(initial=0) > 9:
        raise DataError(f'the {part} files of MNIST under {data_dir} have the label {labels.max()}, outside 0 to 9; '
                        'fetch them again')
    return images, labels.astype(np.int32)


def as_images(pixels):
    """Bytes [N, 28, 28] as float32 [N, 28, 28, 1] in [0, 1]."""
    return pixels[..., np.newaxis] / np.float32(255)


def load(data_dir, settings):
    """x: [N, 28, 28, 1] in [0, 1]."""
    fetch(data_dir, 'mnist', FILES['train'] + FILES['t10k'], settings.download)
    generator = make_generator(settings.seed, SPLIT)
    orders = None
    if settings.dataset == 'pmnist':
        orders = [generator.permutation(28 * 28) for _ in range(CLIENTS)]
    splits = []
    for part in FILES:
        pixels, labels = read_part(data_dir, part)
        if not len(labels) or len(labels) % CLIENTS:
            raise DataError(f'the {part} files of MNIST under {data_dir} have {len(labels)} digits, which {CLIENTS} '
                            'clients cannot share equally; fetch them again')
        rows = generator.permutation(len(labels)).reshape(CLIENTS, -1)
        # [K, n, 784] of bytes; they become floats once, at the end.
        own = pixels.reshape(len(pixels), -1)[rows]
        if orders:
            own = np.stack([images[:, order] for images, order in zip(own, orders)])
        splits.append(Split(as_images(own.reshape(-1, 28, 28)), labels[rows.ravel()],
                            np.arange(CLIENTS + 1) * rows.shape[1]))
    names = tuple(f'{settings.dataset} {i}' for i in range(CLIENTS))
    return FederatedDataset(settings.dataset, names, *splits, 10)
