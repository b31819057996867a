import numpy as np
import pytest

from virtual_tf.data import watch
from virtual_tf.methods.registry import make_settings


@pytest.fixture(scope='module')
def dataset():
    return watch.load(None, make_settings({}))


def test_a_client_is_a_subjects_side(dataset):
    assert len(dataset.clients) == 20 and len(set(dataset.clients)) == 20
    assert {name.split()[-1] for name in dataset.clients} == {'left', 'right'}
    assert len({name.rsplit(' ', 1)[0] for name in dataset.clients}) == 10


def test_seven_exercises_and_48_features(dataset):
    assert dataset.num_classes == 7 and dataset.input_shape == (48,)
    for split in (dataset.train, dataset.test):
        assert np.array_equal(np.unique(split.y), np.arange(7))
        assert split.x.dtype == np.float32 and np.isfinite(split.x).all() and np.all(split.sizes() > 0)


def test_features_are_standardised_by_the_training_windows(dataset):
    np.testing.assert_allclose(dataset.train.x.mean(axis=0, dtype=np.float64), np.zeros(48), atol=1e-5)
    np.testing.assert_allclose(dataset.train.x.std(axis=0, dtype=np.float64), np.ones(48), rtol=1e-5)


def test_about_a_quarter_of_every_client_is_test_data(dataset):
    # The last quarter of each recording, at least one window: short recordings push the share up.
    share = dataset.test.sizes() / (dataset.test.sizes() + dataset.train.sizes())
    assert np.all((share > 0.2) & (share < 0.35))


def test_no_window_is_both_training_and_test_data(dataset):
    train, test = ({row.tobytes() for row in split.x} for split in (dataset.train, dataset.test))
    assert not train & test
