"""`har` and `hapt`: windows of smartphone recordings as 561 features; a client is one of 30 subjects.

`har` has 6 activities (Anguita et al. 2013), `hapt` these and 6 transitions between postures (Reyes-Ortiz et al.
2016). UCI's division into training and test subjects is undone: each subject's own windows are split 75/25.
"""
import io

import numpy as np

from virtual_tf.data import archives, prepared
from virtual_tf.data.download import RemoteFile, fetch, folder_of
from virtual_tf.data.example_table import Table, federate
from virtual_tf.data.federated import DataError

FEATURES = 561
ACTIVITIES = {'har': 6, 'hapt': 12}
RECOMPUTED = 'X_IS_RECOMPUTED.txt'   # lies in an archive whose features are not UCI's own
CAVEAT = 'X recomputed from the signals'
_UCI = 'https://archive.ics.uci.edu/static/public/'
_HAR_ZIP, _HAPT_ZIP = ('human+activity+recognition+using+smartphones.zip',
                       'smartphone+based+recognition+of+human+activities+and+postural+transitions.zip')
FILES = {
    'har': RemoteFile(_HAR_ZIP, f'{_UCI}240/{_HAR_ZIP}',
                      'c00b803081a5c797cd5e4b83700a9810b38d53d9d84e01917e090e1fdbc81031'),
    'hapt': RemoteFile(_HAPT_ZIP, f'{_UCI}341/{_HAPT_ZIP}',
                       '4ac4ae064227c07045a99551876b54d204837e995e298b6488559e209b3deb09')}
_SUBJECTS = {'har': 'subject', 'hapt': 'subject_id'}


def load(data_dir, settings):
    """x: [N, 561] as published, in [-1, 1]."""
    name = settings.dataset
    path = _source(data_dir, name, settings.download)
    files = sorted(path.rglob('*_t*.txt')) if path.is_dir() else [path]
    table = prepared.load(data_dir, name, files, lambda: read(path, name))
    return federate(name, table, settings.seed)


def read(path, name):
    """The Table of an archive or its unpacked folder."""
    endings = [f'{part}/{kind}_{part}.txt' for part in ('train', 'test') for kind in ('X', 'y', _SUBJECTS[name])]
    tree = archives.members(path)
    readers = archives.find(tree, endings)
    if readers is None:
        raise DataError(f'{path} lacks one of {", ".join(endings)}; fetch {FILES[name].url} again')
    columns = [[], [], []]
    for ending, reader in zip(endings, readers):
        kind = endings.index(ending) % 3
        columns[kind].append(_numbers(reader(), f'{ending} of {path}', FEATURES if kind == 0 else 1))
    for parts in zip(*columns):
        if len({len(part) for part in parts}) > 1:
            raise DataError(f'{path} has {", ".join(str(len(part)) for part in parts)} rows of X, y and subject where '
                            'there should be as many of each; fetch it again')
    x, y, subject = (np.concatenate(parts) for parts in columns)
    label, count = y[:, 0].astype(np.int32) - 1, ACTIVITIES[name]
    wrong = np.flatnonzero((label < 0) | (label >= count))
    if len(wrong):
        raise DataError(f'{path} has the label {label[wrong[0]] + 1} for subject {subject[wrong[0], 0]:g}, outside '
                        f'1 to {count}; fetch it again')
    if not np.isfinite(x).all():
        raise DataError(f'{path} has a feature that is not a finite number; fetch it again')
    ids, client = np.unique(subject[:, 0].astype(int), return_inverse=True)
    caveat = CAVEAT if archives.find(tree, [RECOMPUTED]) else ''
    return Table(x, label, client, tuple(f'subject {i}' for i in ids), count, caveat=caveat)


def _source(data_dir, name, download):
    """The archive in the data set's folder, or the folder itself when it is unpacked there."""
    folder = folder_of(data_dir, name)
    if any(folder.rglob('[Xx]_train.txt')):
        return folder
    zips = sorted(folder.glob('*.zip'))
    return zips[0] if zips else fetch(data_dir, name, (FILES[name],), download)[0]


def _numbers(content, what, columns):
    try:
        values = np.loadtxt(io.BytesIO(content), dtype=np.float32, ndmin=2)
    except ValueError as error:
        raise DataError(f'{what} is not a table of numbers ({error}); fetch it again') from error
    if values.shape[1] != columns:
        raise DataError(f'{what} has {values.shape[1]} columns instead of {columns}; fetch it again')
    return values
