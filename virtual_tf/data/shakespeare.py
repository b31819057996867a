"""`shakespeare`: the lines of each role, to predict the next character; a client is a role (Caldas et al. 2018).

TensorFlow Federated's HDF5 files with /examples/<role>/snippets. A role's text is cut into sequences of 81 characters:
80 to read, and for each the one after it to predict. Ids are TFF's: 86 characters from 1, 0 for padding and for any
other character. Padding and unknown characters are no targets (-1), so class 0 has none.

The paper excludes roles without a full batch of 10 sequences; the 120 that have one in both files, or rather the first
100 of them, are those of its Table 1.
"""
import numpy as np

from virtual_tf.data import hdf5, prepared
from virtual_tf.data.download import RemoteFile, fetch_unpacked
from virtual_tf.data.example_table import Table, federate
from virtual_tf.data.federated import DataError

VOCABULARY = ('dhlptx@DHLPTX $(,048cgkoswCGKOSW[_#\'/37;?bfjnrvzBFJNRVZ"&*.26:\naeimquyAEIMQUY]!%)-159\r')
NUM_CLASSES = len(VOCABULARY) + 1
LENGTH, BATCH = 80, 10
FULL_BATCH = BATCH * (LENGTH + 1)
NAMES = ('shakespeare_train.h5', 'shakespeare_test.h5')
ARCHIVE = RemoteFile('shakespeare.tar.bz2', 'https://storage.googleapis.com/tff-datasets-public/shakespeare.tar.bz2',
                     '0285be9906cb5f268092eee4edeeacfc2af4574f2941f7cc2f08a321d7f5c707')

_IDS = np.zeros(256, np.int32)
_IDS[np.frombuffer(VOCABULARY.encode(), np.uint8)] = np.arange(1, NUM_CLASSES)


def load(data_dir, settings):
    """x, y: [N, 80]; the first max_clients roles that have a full batch."""
    paths = fetch_unpacked(data_dir, 'shakespeare', NAMES, ARCHIVE, settings.download)
    table = prepared.load(data_dir, 'shakespeare', paths, lambda: read(paths, settings.max_clients),
                          max_clients=settings.max_clients)
    return federate('shakespeare', table, settings.seed)


def read_texts(paths):
    """{role: (training text, test text)} of all roles in id order, as bytes."""
    with hdf5.open_examples(paths[0]) as train, hdf5.open_examples(paths[1]) as test:
        return {role: tuple(b''.join(hdf5.values(group[role], 'snippets', role, path).tolist())
                            for group, path in zip((train, test), paths))
                for role in hdf5.common_clients(train, test, paths)}


def encode(text):
    """Ids of a byte string [characters]."""
    return _IDS[np.frombuffer(text, np.uint8)]


def sequences(ids):
    """x, y [N, 80] of a text's ids; a last character alone has nothing after it and is left out."""
    count = -(-(len(ids) - 1) // (LENGTH + 1))
    padded = np.zeros(count * (LENGTH + 1), np.int32)
    used = min(len(ids), len(padded))
    padded[:used] = ids[:used]
    rows = padded.reshape(count, LENGTH + 1)
    x, y = rows[:, :-1], rows[:, 1:]
    return x, np.where(y > 0, y, -1)


def read(paths, max_clients):
    """The Table of the first max_clients roles with a full batch; 0 takes all."""
    texts = {role: pair for role, pair in read_texts(paths).items() if min(map(len, pair)) >= FULL_BATCH}
    if not texts:
        raise DataError(f'no role of {paths[0]} and {paths[1]} has {FULL_BATCH} characters in both; fetch both again')
    roles = list(texts)[:max_clients or None]
    columns = []
    for i, role in enumerate(roles):
        for is_test, text in enumerate(texts[role]):
            x, y = sequences(encode(text))
            columns.append((x, y, np.full(len(x), i), np.full(len(x), bool(is_test))))
    x, y, client, is_test = map(np.concatenate, zip(*columns))
    return Table(x, y, client, tuple(roles), NUM_CLASSES, is_test)
