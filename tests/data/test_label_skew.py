"""Clients made by label: proportions, exact numbers of classes, and every example used once or told."""
import made_up
import numpy as np
import pytest

from virtual_tf import data
from virtual_tf.core.random_streams import make_generator
from virtual_tf.data import label_skew
from virtual_tf.data.federated import DataError, FederatedDataset, Split
from virtual_tf.runs import driver


def make(sizes, caveat=''):
    """A data set of one client with so many examples of each class; the feature of an example is its number."""
    y = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    x = np.arange(len(y), dtype=np.float32)[:, np.newaxis]
    test = np.arange(len(y)) % 3 == 0
    return FederatedDataset('toy', ('all',), Split.of([(x[~test], y[~test])]), Split.of([(x[test], y[test])]),
                            len(sizes), caveat=caveat)


def counts_of(dataset):
    """Examples of each class and client [classes, K], in training and test data together."""
    return sum(np.stack([np.bincount(split.client(i)[1], minlength=dataset.num_classes)
                         for i in range(len(dataset.clients))], axis=1) for split in (dataset.train, dataset.test))


@pytest.mark.parametrize('split', ['dirichlet:0.1', 'dirichlet:100', 'classes:1', 'classes:2', 'classes:5'])
def test_every_example_once_with_its_label_split_75_25(split):
    sizes = [400, 37, 100, 250, 61]
    dataset = label_skew.regroup(make(sizes, 'a caveat'), split, 8, seed=3)
    numbers = np.concatenate([dataset.train.x[:, 0], dataset.test.x[:, 0]]).astype(int)
    left = sum(sizes) - len(numbers)
    assert len(np.unique(numbers)) == len(numbers)
    labels = np.repeat(np.arange(5), sizes)
    np.testing.assert_array_equal(np.concatenate([dataset.train.y, dataset.test.y]), labels[numbers])
    said = f', {left} of {sum(sizes)} examples left out' if left else ''
    asked = '' if len(dataset.clients) == 8 else ' of 8 asked for'
    assert dataset.caveat == f'a caveat; regrouped by {split} into {len(dataset.clients)} clients{asked}{said}'
    both = dataset.train.sizes() + dataset.test.sizes()
    assert both.min() >= label_skew.MIN_EXAMPLES and (abs(dataset.test.sizes() - both / 4) <= 1).all()
    if split.startswith('classes'):
        assert not left     # every class has clients, and they share all of it


def test_dirichlet_proportions_have_the_second_moment_of_their_distribution():
    """Σ_k E[p_k²] = (α + 1) / (Kα + 1) for p ~ Dirichlet(α, …, α) over K clients."""
    classes, size, clients = 4000, 1000, 5
    for alpha in (0.1, 1.0, 10.0):
        counts = label_skew.dirichlet_counts(np.full(classes, size), alpha, clients, make_generator(0))
        assert counts.shape == (classes, clients) and (counts.sum(axis=1) == size).all() and counts.min() >= 0
        squares = np.sum((counts / size) ** 2, axis=1)
        error = squares.std() / np.sqrt(classes)
        # Rounding to whole examples moves a share by less than 1/size.
        assert abs(squares.mean() - (alpha + 1) / (clients * alpha + 1)) < 4 * error + 2 / size


def test_dirichlet_limits():
    sizes = np.array([1000, 500, 70, 200])
    alike = label_skew.dirichlet_counts(sizes, 1e9, 10, make_generator(0))
    np.testing.assert_array_less(abs(alike - sizes[:, np.newaxis] / 10), 1.01)
    apart = label_skew.dirichlet_counts(sizes, 1e-9, 10, make_generator(0))
    # Each class is one client's, so no draw serves more clients than there are classes.
    np.testing.assert_array_equal(apart.max(axis=1), sizes)
    assert (np.count_nonzero(apart, axis=1) == 1).all() and apart.shape[1] <= 4


@pytest.mark.parametrize('sizes, per_client, clients', [
    ([100] * 10, 2, 20), ([100] * 10, 3, 7), ([500, 20, 300, 40, 77], 2, 9), ([60, 60, 60], 3, 4), ([90, 90], 1, 9),
    ([1000, 10, 10, 10], 2, 6)])
def test_classes_are_exactly_so_many_and_shared_equally(sizes, per_client, clients):
    counts = label_skew.class_counts(np.array(sizes), per_client, clients, make_generator(1))
    assert counts.shape == (len(sizes), clients)
    assert (np.count_nonzero(counts, axis=0) == per_client).all()
    assert counts.sum(axis=0).min() >= label_skew.MIN_EXAMPLES
    owners = np.count_nonzero(counts, axis=1)
    np.testing.assert_array_equal(counts.sum(axis=1), sizes)
    for row, size, count in zip(counts, sizes, owners):
        assert np.isin(row[row > 0], [size // count, -(-size // count)]).all()
    # Only a class with too few examples for more clients has fewer than the others.
    full = np.array(sizes) // -(-label_skew.MIN_EXAMPLES // per_client) == owners
    assert (full | (owners >= owners.max() - 1)).all()


def test_fewer_clients_where_classes_do_not_suffice():
    # Two classes a client with five examples of each: the second class serves 3 clients, and all need it.
    counts = label_skew.class_counts(np.array([500, 19]), 2, 20, make_generator(0))
    assert counts.shape == (2, 3) and counts.sum() == 519
    # Three clients of one class each leave two of five classes to nobody.
    dataset = label_skew.regroup(make([30] * 5), 'classes:1', 3, seed=0)
    assert counts_of(dataset).sum() == 90 and dataset.caveat.endswith('into 3 clients, 60 of 150 examples left out')


def test_absurd_requests_end():
    dataset = label_skew.regroup(make([500, 500]), 'dirichlet:1e-300', 100, seed=0)
    assert len(dataset.clients) == 2 and '2 clients of 100 asked for' in dataset.caveat
    assert len(label_skew.regroup(make([5, 5]), 'dirichlet:1e9', 1, seed=0).clients) == 1
    for split, clients, sentence in (
            ('classes:1000000000', 2, '2 classes have examples, and a client needs 1000000000'),
            ('dirichlet:0.1', 10**12, 'split_clients=1000000000000 is too many for the 1000 examples')):
        with pytest.raises(DataError, match=sentence):
            label_skew.regroup(make([500, 500]), split, clients, seed=0)


@pytest.mark.parametrize('split', ['dirichlet', 'dirichlet:', 'dirichlet:0', 'dirichlet:nan', 'dirichlet:inf', 'iid:2',
                                   'dirichlet:-1', 'classes:1.5', 'classes:0', 'classes:x', '2'])
def test_other_splits_are_one_sentence_before_any_data_is_read(tmp_path, split):
    settings = made_up.settings('femnist', split=split)
    for refuse in (lambda: data.load(tmp_path, settings), lambda: driver.check_names(settings)):
        with pytest.raises(DataError, match=r'split must be dirichlet:α .* got'):
            refuse()


def test_sequences_are_refused():
    ids = np.ones([20, 4], np.int32)
    text = FederatedDataset('text', ('a',), *[Split.of([(ids, ids)])] * 2, 2)
    with pytest.raises(DataError, match='text has sequences; leave split out'):
        label_skew.regroup(text, 'classes:1', 2, seed=0)


@pytest.mark.parametrize('name, write', [
    ('watch', lambda root: None), ('synthetic', lambda root: None), ('mnist', made_up.write_mnist),
    ('leaf:{root}/mine', lambda root: made_up.write_leaf(
        root / 'mine' / 'all.json', {'ann': ([[0.0], [1.0]] * 100, [0, 1] * 100)}))])
def test_loaded_data_sets_are_regrouped_by_the_seed(tmp_path, name, write):
    write(tmp_path)
    name = name.format(root=tmp_path)
    given = {'split': 'dirichlet:5', 'split_clients': 6, 'validation_fraction': 0.2, 'standardize': 'global'}
    plain = data.load(tmp_path, made_up.settings(name))
    first, again, other = (data.load(tmp_path, made_up.settings(name, seed=seed, **given)) for seed in (1, 1, 2))
    assert first.clients == tuple(f'client {i}' for i in range(6)) and first.name == plain.name
    assert 'regrouped by dirichlet:5 into 6 clients' in first.caveat
    assert all(len(split.y) for split in (first.train, first.test, first.validation))
    np.testing.assert_array_equal(first.train.x, again.train.x)
    assert first.train.y.shape != other.train.y.shape or (first.train.y != other.train.y).any()
