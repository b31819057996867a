"""The data type itself, its validation split, and what a cohort gets in a round."""
import numpy as np
import pytest
from toys import make_dataset, make_settings

from virtual_tf.core import random_streams
from virtual_tf.data.federated import FederatedDataset, Split

SIZES = (9, 5, 7, 12)


def test_a_split_gives_back_what_each_client_has():
    pairs = [(np.full([size, 2], i), np.full(size, i)) for i, size in enumerate((3, 0, 2))]
    split = Split.of(pairs)
    assert np.array_equal(split.sizes(), [3, 0, 2])
    for i, (x, y) in enumerate(pairs):
        assert np.array_equal(split.client(i)[0], x) and np.array_equal(split.client(i)[1], y)


def test_targets_are_counted_by_client_without_padding_of_sequences():
    y = np.array([[1, 2, -1], [3, -1, -1], [4, 5, 6], [7, -1, -1]])
    split = Split(np.zeros([4, 3]), y, np.array([0, 2, 2, 4, 4]))
    # 2 + 1, nothing, 3 + 1, nothing
    assert np.array_equal(split.targets(), [3, 0, 4, 0])


def test_padding_has_no_target():
    split = Split.of([(np.ones([2, 3]), np.array([5, 6])), (np.ones([4, 3]), np.array([1, 2, 3, 4]))])
    x, y = split.padded([1, 0], 5)
    assert np.array_equal(y, [[1, 2, 3, 4, -1], [5, 6, -1, -1, -1]])
    assert np.array_equal(x.sum(axis=2), [[3, 3, 3, 3, 0], [3, 3, 0, 0, 0]])


@pytest.mark.parametrize('weighting, expected', [('uniform', np.full(4, 0.25)), ('size', np.array(SIZES) / 33)])
def test_prior_weights_sum_to_one(weighting, expected):
    np.testing.assert_allclose(make_dataset(SIZES).prior_weights(weighting), expected, rtol=1e-6)


def test_hold_out_moves_a_share_of_every_client_and_loses_nothing():
    dataset = make_dataset((10, 2, 1, 40))
    held = dataset.hold_out(0.25, seed=0)
    # round(2.5) = 2 of 10, at least one of 2, none of the only one, 10 of 40
    assert np.array_equal(held.validation.sizes(), [2, 1, 0, 10])
    for i in range(4):
        both = np.concatenate([held.train.client(i)[0], held.validation.client(i)[0]])
        assert np.array_equal(np.sort(both, axis=0), np.sort(dataset.train.client(i)[0], axis=0))
    assert held.test is dataset.test and dataset.hold_out(0.0, 0) is dataset
    other = dataset.hold_out(0.25, seed=1)
    assert not np.array_equal(other.validation.x, held.validation.x)


def test_hold_out_keeps_examples_with_their_labels():
    dataset = make_dataset((30, 20))
    x = dataset.train.y[:, np.newaxis] * np.ones([1, 3], np.float32)
    dataset = FederatedDataset('toy', ('a', 'b'), dataset.train._replace(x=x), dataset.test, 2).hold_out(0.3, 0)
    for split in (dataset.train, dataset.validation):
        assert np.array_equal(split.x[:, 0], split.y)


def test_a_trailing_zero_makes_another_stream():
    # NumPy's SeedSequence alone would pad (0, 5) to (0, 5, 0): a purpose, and the same purpose for client 0.
    first, second = (random_streams.make_generator(*entropy).integers(2 ** 62) for entropy in ((0, 5), (0, 5, 0)))
    assert first != second


def test_a_cohort_has_the_clients_data_sizes_weights_and_keys():
    dataset, settings = make_dataset(SIZES), make_settings(prior_weighting='size', epochs=3, batch_size=4)
    ids = np.array([1, 3])
    cohort = dataset.cohort(ids, 5, settings)
    assert cohort.x.shape == (2, 12, 3) and np.array_equal(cohort.size, [5, 12])
    np.testing.assert_allclose(cohort.weight, np.array([5, 12]) / 33, rtol=1e-6)
    for row, i in enumerate(ids):
        x, y = dataset.train.client(i)
        assert np.array_equal(cohort.x[row, :len(x)], x) and np.array_equal(cohort.y[row, :len(y)], y)
        used = cohort.batches[row][cohort.batches[row] >= 0]
        # Three epochs show every example three times.
        assert np.array_equal(np.bincount(used), np.full(len(y), 3))
    # 3 · ⌈12/4⌉ steps for the largest client of the data set, so that every cohort has the same shapes.
    assert cohort.batches.shape == (2, 9, 4)


def test_a_clients_round_does_not_depend_on_its_cohort_but_on_round_and_seed():
    dataset = make_dataset(SIZES)
    first = dataset.cohort(np.array([1, 3]), 5, make_settings())
    second = dataset.cohort(np.array([0, 2, 3]), 5, make_settings())
    for a, b in zip(first, second):
        assert np.array_equal(a[1], b[2])
    for other in (dataset.cohort(np.array([1, 3]), 6, make_settings()),
                  dataset.cohort(np.array([1, 3]), 5, make_settings(seed=1))):
        assert not np.array_equal(first.batches, other.batches) and not np.array_equal(first.keys, other.keys)
