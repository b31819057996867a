"""Pictures of data sets."""
import matplotlib.image
import numpy as np

from virtual_tf.data.federated import FederatedDataset, Split
from virtual_tf.report import data_pictures


def make(y, classes):
    """Two clients with half of the rows each, in training and in test."""
    half = len(y) // 2
    split = Split.of([(np.zeros([half, 2]), y[:half]), (np.zeros([len(y) - half, 2]), y[half:])])
    return FederatedDataset('toy', ('a', 'b'), split, split, classes)


def test_label_mix_counts_targets_alone():
    mix = data_pictures.label_mix(make(np.array([[0, 1], [0, -1], [2, 2], [-1, -1]]), 3))
    np.testing.assert_allclose(mix, [[2 / 3, 1 / 3, 0], [0, 0, 1]])


def test_draws_any_number_of_data_sets_and_classes(tmp_path):
    few, many = make(np.array([0, 1, 1, 0]), 2), make(np.arange(60).reshape(20, 3) % 50, 50)
    data_pictures.clients({'few': few, 'many': many}, tmp_path / 'a.png')
    data_pictures.clients({'few': few}, tmp_path / 'b.png')
    assert matplotlib.image.imread(tmp_path / 'a.png').shape[0] > matplotlib.image.imread(tmp_path / 'b.png').shape[0]
