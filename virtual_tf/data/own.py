"""`leaf:PATH` and `npz:PATH`: data of your own; docs/data.md has the formats.

What is wrong (a number that is not finite, a label out of range, a user without data) is refused, because leaving it
out would hide a fault. A client with too little to train and test a model of its own is skipped, by name.
"""
import gzip
import json
import pathlib
import zipfile
import zlib

import numpy as np

from virtual_tf.data import prepared, shakespeare
from virtual_tf.data.checks import check_examples, note_gaps, number_labels, skip_small
from virtual_tf.data.example_table import Table, federate
from virtual_tf.data.federated import DataError

_SUFFIXES = ('.json', '.json.gz')
_ARRAYS = ('x', 'y', 'client', 'test', 'num_classes')


def load_leaf(data_dir, settings):
    """A folder in LEAF's json format, with train/ and test/ or to be split."""
    path = _path(settings.dataset)
    return _load(data_dir, settings, path, leaf_files(path), read_leaf)


def load_npz(data_dir, settings):
    """A NumPy archive with x, y and client, and test when it is split."""
    path = _path(settings.dataset)
    return _load(data_dir, settings, path, [path], read_npz)


def leaf_files(folder):
    """The json files of a LEAF folder, those of train/ first."""
    folder = pathlib.Path(folder)
    return [path for part in ('train', 'test', '.') for path in sorted((folder / part).glob('*'))
            if path.is_file() and path.name.endswith(_SUFFIXES)]


def read_leaf(folder, num_classes=None):
    """The Table of a LEAF folder; with num_classes, of the examples of the first so many classes."""
    folder = pathlib.Path(folder)
    files = leaf_files(folder)
    if not files:
        raise DataError(f'{folder} has no .json files, nor have its train/ and test/; name a folder in LEAF\'s format')
    has_test = any(path.parent == folder / 'test' for path in files)
    if has_test and not any(path.parent == folder / 'train' for path in files):
        raise DataError(f'{folder} has test/ but no train/; add it, or name the folder test/ to have it split')
    beside = [path.name for path in files if path.parent == folder]
    if len(files) > len(beside) > 0:
        raise DataError(f'{folder} has {beside[0]} beside train/, which may hold the test data too; move it away')
    names, columns = {}, []
    for path in files:
        for user, x, y in _users(path):
            position = names.setdefault(user, len(names))
            if len(y):
                x, y = _examples(x, y, user, path, columns[0][:2] if columns else None)
                if num_classes and y.dtype.kind != 'U' and y[0].size == 1:
                    kept = ~(y.reshape(-1) >= num_classes)     # also what is not a number, to be refused
                    x, y = x[kept], y[kept]
            if len(y):
                columns.append((x, y, np.full(len(y), position), np.full(len(y), path.parent == folder / 'test')))
    if not columns:
        raise DataError(f'{folder} has no examples at all; name a folder with data')
    x, y, client, is_test = map(np.concatenate, zip(*columns))
    return _table(folder, x, y, client, list(names), is_test if has_test else None, num_classes)


def read_npz(path):
    """The Table of an archive."""
    try:
        with np.load(path, allow_pickle=False) as file:
            values = {key: file[key] for key in _ARRAYS if key in file.files}
            unknown = [key for key in file.files if key not in _ARRAYS]
    except (OSError, EOFError, ValueError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f'{path} is not a NumPy archive of plain arrays ({error}); write it with np.savez, names as '
                        'strings and not as objects') from error
    if unknown:
        raise DataError(f'{path} has an array {unknown[0]!r} that nothing reads; known are {", ".join(_ARRAYS)}: '
                        'rename it, or leave it out')
    missing = [key for key in ('x', 'y', 'client') if key not in values]
    if missing:
        raise DataError(f'{path} lacks {", ".join(missing)}; it needs arrays x, y and client')
    lengths = {key: len(value) for key, value in values.items() if key != 'num_classes' and value.ndim}
    if len(set(lengths.values())) != 1 or len(lengths) != len(values) - ('num_classes' in values) or not lengths['x']:
        raise DataError(f'{path} has arrays of lengths {lengths}; x, y, client and test need an entry for each example')
    names, client = np.unique(values['client'], return_inverse=True)
    num_classes = int(values['num_classes'].max()) if 'num_classes' in values else None
    is_test = values['test'].astype(bool) if 'test' in values else None
    return _table(path, values['x'], values['y'], client, names.tolist(), is_test, num_classes)


def _path(dataset):
    return pathlib.Path(dataset.partition(':')[2]).expanduser()


def _load(data_dir, settings, path, files, read):
    kind = settings.dataset.partition(':')[0]
    if not path.exists():
        raise DataError(f'{path} does not exist; put the path of your data after {kind}:')
    # `notes` makes anew what was prepared when own data had none.
    table = prepared.load(data_dir, kind, files, lambda: read(path), path=str(path.resolve()), notes=True)
    return skip_small(path, federate(f'{kind}:{path.name}', table, settings.seed))


def _table(source, x, y, client, names, is_test, given_classes=None):
    y, notes = number_labels(source, y, client, names, is_test)
    x, y, num_classes = check_examples(source, x, y, client, names, is_test, given_classes)
    if given_classes is None:
        notes += note_gaps(y, names, num_classes)
    return Table(x, y, client, tuple(map(str, names)), num_classes, is_test, notes=notes)


def _users(path):
    """(user, x, y) of one json file, x and y as they are in it."""
    try:
        opened = gzip.open(path, 'rt', encoding='utf-8') if path.name.endswith('.gz') else open(path, encoding='utf-8')
        with opened as stream:
            content = json.load(stream)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(f'{path} is not complete json ({error}); write or fetch it again') from error
    if not isinstance(content, dict) or not all(
            isinstance(content.get(key), kind) for key, kind in (('users', list), ('user_data', dict))):
        raise DataError(f'{path} has not the keys users and user_data of LEAF\'s format, a list and an object; add '
                        'them')
    users, user_data = content['users'], content['user_data']
    counts = content.get('num_samples', [None] * len(users))
    if not isinstance(counts, list) or len(counts) != len(users):
        found = len(counts) if isinstance(counts, list) else 'no list of'
        raise DataError(f'{path} has {len(users)} users and {found} num_samples; make them agree')
    for user, count in zip(map(str, users), counts):
        data = user_data.get(user)
        if not isinstance(data, dict) or not all(isinstance(data.get(key), list) for key in ('x', 'y')):
            raise DataError(f'{path} lists user {user!r} and has no x and y, two lists, in user_data for it; add them, '
                            'or take the user off the list')
        if len(data['x']) != len(data['y']) or count not in (None, len(data['y'])):
            raise DataError(f'{path} has {len(data["x"])} x and {len(data["y"])} y for user {user!r} and num_samples '
                            f'{count}; make them agree')
        yield user, data['x'], data['y']


def _examples(x, y, user, path, others):
    """A user's lists as arrays of the others' shapes; text becomes ids, with the character after it as target."""
    if isinstance(x[0], str):
        x, y = _encode(x, y, user, path)
    try:
        x, y = np.asarray(x), np.asarray(y)
    except ValueError as error:
        raise DataError(f'{path}: examples of user {user!r} differ in shape ({error}); give all the same') from error
    if x.dtype.kind not in 'biuf' or y.dtype.kind not in 'biufU':
        raise DataError(f'{path}: user {user!r} has x or y that are not numbers (y may be names); convert '
                        'them, images to their pixels')
    if others and (y.dtype.kind == 'U') != (others[1].dtype.kind == 'U'):
        raise DataError(f'{path}: of user {user!r} and others some have numbers as y and some names; give all the same')
    if x.dtype.kind == 'f':
        x = x.astype(np.float32)     # while there is little of it
    for name, values, other in zip('xy', (x, y), others or (x, y)):
        if values.shape[1:] != other.shape[1:]:
            raise DataError(f'{path}: user {user!r} has {name} of shape {values.shape[1:]} where others have '
                            f'{other.shape[1:]}; give all the same')
    return x, y


def _encode(x, y, user, path):
    if not all(isinstance(text, str) for text in (*x, *y)) or len(set(map(len, x))) > 1 or set(map(len, y)) != {1}:
        raise DataError(f'{path}: user {user!r} has text as x; it must be of one length, with one character as y')
    ids = np.stack([shakespeare.encode(text.encode('latin-1', 'replace')) for text in x])
    targets = np.full(ids.shape, -1, np.int32)
    targets[:, -1] = shakespeare.encode(''.join(y).encode('latin-1', 'replace'))
    return ids, np.where(targets > 0, targets, -1)
