"""Splits and standardisation."""
import dataclasses

import numpy as np
import pytest

from virtual_tf.data.federated import DataError, FederatedDataset, Split, split_in_two


def make(train, test, validation=None):
    splits = [None if pairs is None else Split.of([(np.asarray(x, np.float32), np.zeros(len(x), np.int32))
                                                   for x in pairs]) for pairs in (train, test, validation)]
    return FederatedDataset('toy', tuple('ab'), splits[0], splits[1], 2, splits[2])


TRAIN = [[[0.0, 0.1], [2.0, 0.1]], [[10.0, 0.1], [14.0, 0.1]]]
TEST = [[[3.0, 0.1]], [[12.0, 0.3]]]


def test_standardised_by_each_clients_own_training_data():
    dataset = make(TRAIN, TEST, TEST).standardise('client')
    # Client a: mean 1, deviation 1; b: mean 12, deviation 2.
    np.testing.assert_allclose(dataset.train.x[:, 0], [-1, 1, -1, 1])
    np.testing.assert_allclose(dataset.test.x[:, 0], [2, 0])
    np.testing.assert_array_equal(dataset.validation.x, dataset.test.x)
    assert dataset.train.x.dtype == np.float32


def test_centred_by_each_clients_own_training_data_at_its_own_scale():
    dataset = make(TRAIN, TEST, TEST).standardise('center')
    np.testing.assert_allclose(dataset.train.x[:, 0], [-1, 1, -2, 2])
    np.testing.assert_allclose(dataset.test.x[:, 0], [3.0 - 1.0, 12.0 - 12.0])
    np.testing.assert_array_equal(dataset.validation.x, dataset.test.x)


def test_a_client_that_nobody_has_seen_is_centred_by_its_own_mean():
    unseen = make(TRAIN, TEST).part([1])
    dataset = dataclasses.replace(make(TRAIN, TEST).part([0]), unseen=unseen).standardise('center')
    np.testing.assert_allclose(dataset.unseen.train.x[:, 0], [-2, 2])


def test_standardised_by_all_training_data():
    dataset = make(TRAIN, TEST).standardise('global')
    values = np.array([0.0, 2.0, 10.0, 14.0])
    np.testing.assert_allclose(dataset.train.x[:, 0], (values - values.mean()) / values.std(), rtol=1e-6)
    np.testing.assert_allclose(dataset.test.x[:, 0], (np.array([3.0, 12.0]) - 6.5) / values.std(), rtol=1e-6)
    assert dataset.validation is None


@pytest.mark.parametrize('by', ['client', 'global', 'center'])
def test_constant_feature_is_moved_to_zero_and_not_blown_up(by):
    # 0.1 is no binary fraction: its mean is off by rounding, and the deviation is that rounding.
    dataset = make([np.full([7, 1], 0.1), np.full([5, 1], 0.1)], [[[0.1]], [[0.4]]]).standardise(by)
    np.testing.assert_allclose(dataset.train.x, 0.0, atol=1e-7)
    np.testing.assert_allclose(dataset.test.x[:, 0], [0.0, 0.3], atol=1e-7)


def test_as_published_by_default_and_never_for_ids():
    dataset = make(TRAIN, TEST)
    assert dataset.standardise('none') is dataset
    ids = dataclasses.replace(dataset, train=dataset.train._replace(x=dataset.train.x.astype(np.int32)))
    with pytest.raises(DataError, match='standardize=global is for features'):
        ids.standardise('global')


def test_split_is_stratified_and_in_proportion():
    y = np.repeat([0, 1, 2], [8, 4, 1])
    x = np.arange(13)
    (train_x, train_y), (test_x, test_y) = split_in_two(x, y, 0.25, np.random.default_rng(0))
    # A quarter of 8 and of 4; the 13th example adds a quarter, which rounds to none.
    assert np.bincount(test_y).tolist() == [2, 1] and np.bincount(train_y).tolist() == [6, 3, 1]
    assert sorted([*train_x, *test_x]) == list(range(13))


def test_second_part_has_at_least_one_of_two():
    for labels in ([0, 0], [0, 1]):
        (_, first), (_, second) = split_in_two(np.arange(2), np.asarray(labels), 0.25, np.random.default_rng(0))
        assert len(first) == len(second) == 1
    assert len(split_in_two(np.arange(1), np.zeros(1), 0.25, np.random.default_rng(0))[1][1]) == 0


def test_sequences_are_split_without_strata():
    y = np.arange(24).reshape(8, 3)
    (_, train), (_, test) = split_in_two(y, y, 0.25, np.random.default_rng(0))
    assert train.shape == (6, 3) and test.shape == (2, 3)
