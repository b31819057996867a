"""What a loader reads, as one table of examples, and the federated data set that a table makes."""
from typing import NamedTuple

import numpy as np
from absl import logging

from virtual_tf.core.random_streams import SPLIT, make_generator
from virtual_tf.data.federated import TEST_SHARE, FederatedDataset, Split, split_in_two


class Table(NamedTuple):
    """Examples of all clients in any order."""
    x: np.ndarray                       # [N, …]
    y: np.ndarray                       # [N] or [N, L]
    client: np.ndarray                  # [N] positions in `names`
    names: tuple
    num_classes: int
    is_test: np.ndarray | None = None   # [N]; None leaves the split to `federate`
    caveat: str = ''
    notes: tuple = ()                   # what a user should be told each time the data is loaded


def federate(name, table, seed):
    """The data set of a table, with the table's own split or a seeded and stratified one of 75/25."""
    for note in table.notes:
        logging.warning('%s: %s', name, note)
    if table.is_test is None:
        splits = _split(table, make_generator(seed, SPLIT))
    else:
        splits = [_part(table, np.flatnonzero(table.is_test == part)) for part in (False, True)]
    return FederatedDataset(name, tuple(table.names), *splits, table.num_classes, caveat=table.caveat)


def choose(count, max_clients, generator):
    """Ascending positions of max_clients of `count` clients, drawn by the generator; 0 takes all."""
    if not max_clients or max_clients >= count:
        return np.arange(count)
    return np.sort(generator.choice(count, max_clients, replace=False))


def _split(table, generator):
    whole = _part(table, np.arange(len(table.y)))
    pairs = [split_in_two(*whole.client(i), TEST_SHARE, generator) for i in range(len(table.names))]
    return [Split.of(part) for part in zip(*pairs)]


def _part(table, rows):
    """These rows as a Split; one sort, whatever the number of clients."""
    rows = rows[np.argsort(table.client[rows], kind='stable')]
    offsets = np.searchsorted(table.client[rows], np.arange(len(table.names) + 1))
    if len(rows) and (np.diff(rows) == 1).all():
        rows = slice(rows[0], rows[-1] + 1)     # as the table has them: no copy of a gigabyte
    return Split(table.x[rows], table.y[rows], offsets)
