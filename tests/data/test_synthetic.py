import numpy as np
import pytest

from virtual_tf.data import synthetic
from virtual_tf.methods.registry import make_settings


def load(**changes):
    return synthetic.load(None, make_settings({'dataset': 'synthetic', 'synthetic_max_size': 400} | {
        f'synthetic_{name}' if name != 'seed' else name: value for name, value in changes.items()}))


def inputs(dataset, i):
    return np.concatenate([split.client(i)[0] for split in (dataset.train, dataset.test)])


@pytest.fixture(scope='module')
def dataset():
    return load(clients=40)


def test_sizes_are_between_fifty_and_the_cap_and_split_three_to_one(dataset):
    sizes = dataset.train.sizes() + dataset.test.sizes()
    assert len(sizes) == 40 and sizes.min() >= 50 and sizes.max() == 400
    assert np.array_equal(dataset.test.sizes(), np.round(0.25 * sizes))


def test_shapes_and_classes(dataset):
    assert dataset.input_shape == (60,) and dataset.num_classes == 10
    assert dataset.train.x.dtype == np.float32 and dataset.train.y.dtype == np.int32
    assert set(np.unique(dataset.train.y)) <= set(range(10))


def test_features_have_the_variances_of_the_definition(dataset):
    # Σ_jj = j^-1.2 around each client's own centre; the pooled estimate has relative standard error √(2/n).
    centred = np.concatenate([own - own.mean(axis=0) for own in (inputs(dataset, i) for i in range(40))])
    expected = np.arange(1, 61) ** -1.2
    degrees = len(centred) - 40
    assert np.all(np.abs((centred ** 2).sum(axis=0) / degrees / expected - 1) < 5 * np.sqrt(2 / degrees))


def test_beta_spreads_the_centres():
    def spread(beta):
        dataset = load(clients=60, beta=beta)
        return np.var([inputs(dataset, i).mean() for i in range(60)])

    # The mean of a centre's 60 features is N(0, β + 1/60): β = 0 leaves 1/60 and the noise of the examples.
    assert spread(0.0) < 0.1 < 1.0 < spread(4.0)


def test_labels_are_a_linear_rule_of_each_client(dataset):
    largest = int(np.argmax(dataset.train.sizes()))
    x, y = dataset.train.client(largest)
    # A least-squares fit of one-hot labels to a deterministic linear rule predicts far better than chance.
    design = np.hstack([x, np.ones([len(x), 1])])
    fit, *_ = np.linalg.lstsq(design, np.eye(10)[y], rcond=None)
    share = np.bincount(y).max() / len(y)
    assert np.mean((design @ fit).argmax(axis=1) == y) > min(0.95, share + 0.2 * (1 - share))


def test_iid_clients_have_one_rule_and_one_centre():
    iid, own = (load(clients=20, iid=iid, max_size=2000) for iid in (True, False))

    def centres(dataset):
        return np.array([inputs(dataset, i).mean(axis=0) for i in range(20)])

    # Means of n ≥ 50 examples of variance ≤ 1 around 0 are within 5/√50; the others' centres have variance ≥ 1.
    assert np.abs(centres(iid)).max() < 5 / np.sqrt(50) and np.abs(centres(own)).max() > 1.5
    # One rule for all: the mix of labels is the same for all, where clients' own rules prefer classes of their own.
    mixes = [np.array([np.bincount(split.train.client(i)[1], minlength=10) / len(split.train.client(i)[1])
                       for i in range(20)]).std(axis=0).mean() for split in (iid, own)]
    assert mixes[0] < 0.5 * mixes[1]


def test_the_seed_decides_everything(dataset):
    again, other = load(clients=40), load(clients=40, seed=1)
    assert np.array_equal(again.train.x, dataset.train.x) and np.array_equal(again.test.y, dataset.test.y)
    assert not np.array_equal(other.train.x[:50], dataset.train.x[:50])
