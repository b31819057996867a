"""What data of a user's own has to be, and which clients have too little of it."""
import dataclasses

import numpy as np
from absl import logging

from virtual_tf.data.federated import DataError, Split

_NAMED = 20   # clients that one message lists


def check_examples(source, x, y, client, names, is_test, num_classes):
    """x as images [N, H, W, C] in [0, 1], features [N, D] or ids [N, L]; y as int32; the number of classes."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if x.ndim < 2 or y.ndim not in (1, 2) or x.dtype.kind not in 'biuf' or y.dtype.kind not in 'biuf':
        raise DataError(f'{source} has x of shape {x.shape} and {x.dtype}, y of shape {y.shape} and {y.dtype}; give '
                        'numbers, x: [N, …] and y: [N], or [N, L] for sequences of ids')

    def refuse(rows, what):
        if rows.any():
            row = np.flatnonzero(rows)[0]
            raise DataError(f'{source}: client {str(names[client[row]])!r} has {what(row)}; correct it, or leave the '
                            'client out')

    def each(flags):
        return flags.reshape(len(flags), -1).any(axis=1)

    refuse(each(~np.isfinite(x)), lambda row: 'an x that is not a finite number')
    refuse(each(~np.isfinite(y) | (y != np.rint(y))), lambda row: 'a label that is not an integer')
    y = y.astype(np.int32)
    if y.ndim == 1 and set(np.unique(y)) == {-1, 1}:
        y = (y + 1) // 2
    x = _sequences(source, x, y) if y.ndim == 2 else _images_or_features(x)
    lowest = 1 - y.ndim   # in sequences, -1 is no target
    refuse(each(y < lowest), lambda row: f'the label {y[row].min()}, below {lowest}')
    known = slice(None) if is_test is None else ~is_test
    if num_classes is None:
        # A class that no client trains on cannot be meant.
        num_classes = 1 + int(max(y[known].max(initial=0), x[known].max(initial=0) if y.ndim == 2 else 0))
    refuse(each(y >= num_classes), lambda row: f'the label {y[row].max()}, outside 0 to {num_classes - 1} of the '
           'training data')
    if y.ndim == 2:
        refuse(each(x >= num_classes), lambda row: f'the id {x[row].max()}, outside 0 to {num_classes - 1} of the '
               'training data')
    return x, y, num_classes


def number_labels(source, y, client, names, is_test):
    """(y, notes): labels that are names become 0 … n − 1 in the order of the alphabet, which a note says."""
    if y.dtype.kind not in 'US' or y.shape[1:] not in ((), (1,)):
        return y, ()
    if len(names) == 1:
        raise DataError(f'{source} has names for labels and one client, and what others have is not known here; number '
                        'the names alike everywhere: y = np.searchsorted(NAMES, y), with the sorted names of all')
    # Bytes are letters too, whatever their code.
    y = (np.char.decode(y, 'latin-1') if y.dtype.kind == 'S' else y).reshape(-1)
    classes = np.unique(y if is_test is None else y[~is_test])
    unknown = np.flatnonzero(~np.isin(y, classes))
    if len(unknown):
        raise DataError(f'{source}: client {str(names[client[unknown[0]]])!r} has the label {str(y[unknown[0]])!r}, '
                        'which no training example has; correct it, or leave the client out')
    said = ', '.join(f'{name} {number}' for number, name in enumerate(classes[:_NAMED]))
    return np.searchsorted(classes, y), (f'labels are numbered: {said}{", …" if len(classes) > _NAMED else ""}',)


def note_gaps(y, names, num_classes):
    """The note on classes that no example has, which cost weights and can not be learnt; () if there are none.

    One client alone may well lack some of the classes that others have, and no sequence has every id.
    """
    found = len(np.unique(y))
    if y.ndim > 1 or len(names) == 1 or found == num_classes:
        return ()
    return (f'{num_classes - found} of {num_classes} classes have no example, as the largest label is '
            f'{num_classes - 1}; if they are not meant, number the labels from 0: '
            'y = np.unique(y, return_inverse=True)[1]',)


def skip_small(source, dataset):
    """The data set without the clients that have too little after the split, which a warning names."""
    count = len(dataset.clients)
    trained, tested = dataset.train.sizes(), dataset.test.sizes()
    reasons = (('no training data', trained == 0), ('one example to train on', trained == 1),
               ('no test data', tested == 0), ('one class to train on', _classes(dataset) < 2))
    kept, notes = np.ones(count, bool), []
    for reason, applies in reasons:
        left = np.flatnonzero(kept & applies)
        kept[left] = False
        if len(left):
            named = ', '.join(repr(dataset.clients[i]) for i in left[:_NAMED])
            more = f' and {len(left) - _NAMED} more' if len(left) > _NAMED else ''
            notes.append(f'skipped {len(left)} of {count} clients with {reason}: {named}{more}')
    if not kept.any():
        raise DataError(f'{source} has no client that can be used ({"; ".join(notes)}); give each at least two classes '
                        'to train on and something to test')
    if kept.all():
        return dataset
    for note in notes:
        logging.warning('%s: %s', dataset.name, note)
    caveats = (dataset.caveat, f'{count - kept.sum()} of {count} clients skipped')
    return dataclasses.replace(
        dataset, clients=tuple(name for name, keep in zip(dataset.clients, kept) if keep),
        train=_only(dataset.train, kept), test=_only(dataset.test, kept), caveat='; '.join(filter(None, caveats)))


def _sequences(source, x, y):
    if x.shape != y.shape or (x != np.rint(x)).any() or x.min() < 0:
        raise DataError(f'{source} has y of shape {y.shape}, so x must be ids from 0 of the same shape, got {x.shape} '
                        f'from {x.min()}')
    return x.astype(np.int32)


def _images_or_features(x):
    scaled = x.astype(np.float32) / np.float32(255 if x.dtype == np.uint8 else 1)
    return scaled[..., np.newaxis] if x.ndim == 3 else scaled


def _only(split, kept):
    rows, sizes = np.repeat(kept, split.sizes()), split.sizes()[kept]
    return Split(split.x[rows], split.y[rows], np.append(0, np.cumsum(sizes)))


def _classes(dataset):
    """Number of different training targets of each client [K]."""
    count, y = len(dataset.clients), dataset.train.y.reshape(len(dataset.train.y), -1)
    client = np.repeat(np.arange(count), dataset.train.sizes())
    pairs = (client[:, np.newaxis] * dataset.num_classes + y)[y >= 0]
    return np.bincount(np.unique(pairs) // dataset.num_classes, minlength=count)
