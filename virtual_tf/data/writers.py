"""`writers`: MNIST's training digits grouped by the NIST writer who wrote them; a client is a writer.

Who wrote which digit is in QMNIST's label files (Yadav and Bottou 2019). Writers with at least 110 digits, 100 of
them by seed, each split 75/25.
"""
import numpy as np

from virtual_tf.core.random_streams import CHOICE, make_generator
from virtual_tf.data import mnist
from virtual_tf.data.download import RemoteFile, fetch
from virtual_tf.data.example_table import Table, choose, federate
from virtual_tf.data.federated import DataError

MIN_DIGITS = 110
CAVEAT = 'MNIST digits by NIST writer'
FILE = RemoteFile(
    'qmnist-train-labels-idx2-int.gz',
    'https://raw.githubusercontent.com/facebookresearch/qmnist/master/qmnist-train-labels-idx2-int.gz',
    '2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f')


def load(data_dir, settings):
    """x: [N, 28, 28, 1] in [0, 1]; max_clients writers."""
    path, = fetch(data_dir, 'writers', (FILE,), settings.download)
    rows = mnist.read_idx(path)
    pixels, y = mnist.read_part(data_dir, 'train', settings.download)
    if rows.ndim != 2 or rows.shape[1] < 3 or len(rows) < len(y) or (rows[:len(y), 0] != y).any():
        raise DataError(f'{path} does not describe the digits of {data_dir}/mnist; fetch both again')
    ids, writer, counts = np.unique(rows[:len(y), 2], return_inverse=True, return_counts=True)
    eligible = np.flatnonzero(counts >= MIN_DIGITS)
    if not len(eligible):
        raise DataError(f'{path} names no writer with at least {MIN_DIGITS} digits; fetch it again')
    chosen = eligible[choose(len(eligible), settings.max_clients, make_generator(settings.seed, CHOICE))]
    kept = np.isin(writer, chosen)
    table = Table(mnist.as_images(pixels[kept]), y[kept], np.searchsorted(chosen, writer[kept]),
                  tuple(f'writer {ids[i]}' for i in chosen), 10, caveat=CAVEAT)
    return federate('writers', table, settings.seed)
