"""MNIST's idx files, and their clients."""
import gzip
import hashlib

import made_up
import numpy as np
import pytest

from virtual_tf import data
from virtual_tf.data import mnist
from virtual_tf.data.federated import DataError


def load(root, dataset='mnist', **changes):
    return data.load(root, made_up.settings(dataset, **changes))


def test_reads_what_was_written(tmp_path):
    for values in (np.arange(24, dtype=np.uint8).reshape(2, 3, 4), np.array([[1, -2], [3, 70000]], np.int32)):
        made_up.write_idx(tmp_path / 'a.gz', values)
        np.testing.assert_array_equal(mnist.read_idx(tmp_path / 'a.gz'), values)


def test_every_digit_belongs_to_one_client(tmp_path):
    made_up.write_mnist(tmp_path)
    dataset = load(tmp_path)
    assert dataset.train.sizes().tolist() == [2] * 100 and dataset.test.sizes().tolist() == [1] * 100
    assert dataset.train.x.max() <= 1.0 and dataset.train.x.dtype == np.float32
    numbers = np.rint(255 * dataset.train.x[:, 0, 0, 0]).astype(int)
    assert sorted(numbers) == list(range(200))
    np.testing.assert_array_equal(dataset.train.y, numbers % 10)


def test_pmnist_permutes_train_and_test_of_a_client_alike(tmp_path):
    made_up.write_mnist(tmp_path, 25600, 25600)
    plain, permuted = load(tmp_path, 'pmnist', seed=1).train.x, load(tmp_path, 'pmnist', seed=1).test.x
    places = [{int(image.argmax()) for image in part.reshape(100, 256, 784)[3] if image.any()}
              for part in (plain, permuted)]
    assert places[0] == places[1] and len(places[0]) == 1


def test_seed_decides_the_split(tmp_path):
    made_up.write_mnist(tmp_path)
    first, again, other = (load(tmp_path, seed=seed).train.x for seed in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


@pytest.mark.parametrize('damage, sentence', [
    (lambda content: content[:len(content) // 2], 'not a complete gzip file'),
    (lambda content: b'no gzip', 'not a complete gzip file'),
    (lambda content: gzip.compress(b'\0\0\x0d\1' + bytes(8)), 'does not start like an idx file'),
    (lambda content: gzip.compress(gzip.decompress(content)[:-1]), 'promises'),
    (lambda content: gzip.compress(b'\0\0'), 'does not start like an idx file')])
def test_damaged_file_is_one_sentence(tmp_path, damage, sentence):
    made_up.write_mnist(tmp_path)
    path = tmp_path / 'mnist' / 'train-images-idx3-ubyte.gz'
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=sentence) as caught:
        load(tmp_path)
    assert str(path) in str(caught.value) and '\n' not in str(caught.value)


def test_label_out_of_range_is_refused(tmp_path):
    made_up.write_mnist(tmp_path)
    made_up.write_idx(tmp_path / 'mnist' / 'train-labels-idx1-ubyte.gz', np.full(200, 10, np.uint8))
    with pytest.raises(DataError, match='label 10, outside 0 to 9'):
        load(tmp_path)


def test_digits_that_cannot_be_shared_are_refused(tmp_path):
    made_up.write_mnist(tmp_path, train=150)
    with pytest.raises(DataError, match='150 digits, which 100 clients'):
        load(tmp_path)


def test_real_counts_and_bytes(real_data):
    root = real_data('mnist')
    dataset = load(root)
    assert dataset.train.sizes().tolist() == [600] * 100 and dataset.test.sizes().tolist() == [100] * 100
    assert np.bincount(dataset.train.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    for part, digest in (('train', '6bbc9ace898e44ae57da46a324031adb'), ('t10k', '2646ac647ad5339dbf082846283269ea')):
        with gzip.open(root / 'mnist' / f'{part}-images-idx3-ubyte.gz') as stream:
            assert hashlib.md5(stream.read()).hexdigest() == digest
