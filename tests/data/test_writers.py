"""MNIST digits by writer."""
import made_up
import numpy as np
import pytest

from virtual_tf import data
from virtual_tf.data import mnist
from virtual_tf.data.federated import DataError
from virtual_tf.data.writers import FILE


def write(root, writers, classes=None):
    """QMNIST's table of 8 columns: class, series, writer, …"""
    rows = np.zeros([len(writers), 8], np.int32)
    rows[:, 0] = np.arange(len(writers)) % 10 if classes is None else classes
    rows[:, 2] = writers
    made_up.write_idx(root / 'writers' / FILE.name, rows)


def load(root, **changes):
    return data.load(root, made_up.settings('writers', **changes))


def test_writers_with_enough_digits_are_clients(tmp_path):
    made_up.write_mnist(tmp_path, train=400)
    write(tmp_path, np.repeat([7, 8, 9], [120, 109, 171]))
    dataset = load(tmp_path)
    assert dataset.clients == ('writer 7', 'writer 9')    # 109 digits are too few
    # A quarter of 120, and of 171 rounded.
    assert dataset.test.sizes().tolist() == [30, 43] and dataset.train.sizes().tolist() == [90, 128]
    numbers = np.rint(255 * dataset.train.client(0)[0][:, 0, 0, 0])
    assert numbers.max() < 120                            # the first 120 images are writer 7's


def test_max_clients_draws_by_seed(tmp_path):
    made_up.write_mnist(tmp_path, train=1200)
    write(tmp_path, np.repeat(np.arange(10), 120))
    names = [load(tmp_path, max_clients=3, seed=seed).clients for seed in (0, 0, 1)]
    assert len(names[0]) == 3 and names[0] == names[1] != names[2]
    assert len(load(tmp_path, max_clients=0).clients) == 10


def test_labels_of_other_digits_are_refused(tmp_path):
    made_up.write_mnist(tmp_path)
    write(tmp_path, np.zeros(200, int), classes=3)
    with pytest.raises(DataError, match='does not describe the digits'):
        load(tmp_path)


def test_missing_labels_say_what_to_fetch(tmp_path):
    made_up.write_mnist(tmp_path)
    with pytest.raises(DataError, match=r'lacks qmnist-train.*fetch https://.*by hand into'):
        load(tmp_path)


def test_real_counts(real_data):
    root = real_data('mnist', 'writers')
    for file, part, writers in (('qmnist-train', 'train', 539), ('qmnist-test', 't10k', 297)):
        rows = mnist.read_idx(root / 'writers' / f'{file}-labels-idx2-int.gz')
        labels = mnist.read_part(root, part)[1]
        np.testing.assert_array_equal(rows[:len(labels), 0], labels)
        sizes = np.unique(rows[:len(labels), 2], return_counts=True)[1]
        assert len(sizes) == writers
        if part == 'train':
            assert (sizes.min(), np.median(sizes), sizes.max()) == (19, 116, 131)
    dataset = load(root)
    both = dataset.train.sizes() + dataset.test.sizes()
    assert len(both) == 100 and both.min() >= 110
    assert (np.abs(dataset.test.sizes() - both / 4) <= 0.5).all()
    assert 'FEMNIST' not in f'{dataset.name} {dataset.caveat} {dataset.clients}'.upper()
