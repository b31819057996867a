"""`watch`: smartwatch windows of shoulder exercises, the data set that comes with the package.

10 subjects wore a watch on either side and did 7 exercises (Burns et al. 2018, https://arxiv.org/abs/1802.01489). A
client is a subject's side, an example a window of 3 s as 48 features. The recordings come with seglearn 1.2.5
(watch.LICENSE); scripts/make_watch.py makes the table.
"""
import pathlib

import numpy as np

from virtual_tf.data.federated import FederatedDataset, Split


def load(data_dir, settings):
    """Nothing to choose: the table has its split."""
    with np.load(pathlib.Path(__file__).with_name('watch.npz')) as table:
        x, y, is_test, classes = (table[key] for key in ('x', 'y', 'is_test', 'classes'))
        client = 2 * table['subject'] + table['side']
    ids = np.unique(client)
    train, test = (Split.of([(x[rows & (client == i)], y[rows & (client == i)]) for i in ids])
                   for rows in (~is_test, is_test))
    names = tuple(f'subject {i // 2} {"right" if i % 2 else "left"}' for i in ids)
    return FederatedDataset('watch', names, train, test, len(classes))
