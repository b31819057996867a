"""Digits by writer, from TFF's files and from LEAF's."""
import gzip
import tarfile

import made_up
import numpy as np
import pytest

from virtual_tf import data
from virtual_tf.data import femnist
from virtual_tf.data.federated import DataError


def digits(count, value=0.25, label=3):
    return {'pixels': np.full([count, 28, 28], value, np.float32), 'label': np.full(count, label, np.int32)}


def write(root, train, test):
    for name, clients in zip(femnist.NAMES, (train, test)):
        made_up.write_h5(root / 'femnist' / name, clients)


def load(root, **changes):
    """Pixels as published; by default they are centred."""
    return data.load(root, made_up.settings('femnist', **{'standardize': 'none'} | changes))


def test_reads_the_published_layout_with_its_split(tmp_path):
    write(tmp_path, {'f0_01': digits(3), 'f1_02': digits(2, 1.0, 9)}, {'f0_01': digits(1), 'f1_02': digits(4, 0.5, 0)})
    for _ in range(2):   # from the files, then as prepared
        dataset = load(tmp_path)
        assert dataset.clients == ('writer f0_01', 'writer f1_02')
        assert dataset.train.sizes().tolist() == [3, 2] and dataset.test.sizes().tolist() == [1, 4]
        assert dataset.input_shape == (28, 28, 1) and dataset.train.x.dtype == np.float32
        assert dataset.test.client(1)[0].max() == 0.5 and dataset.train.client(1)[1].tolist() == [9, 9]
        assert dataset.num_classes == 10


def test_by_default_each_writers_own_mean_is_taken_away(tmp_path):
    write(tmp_path, {'f0_01': digits(3), 'f1_02': digits(2, 1.0, 9)}, {'f0_01': digits(1), 'f1_02': digits(4, 0.5, 0)})
    dataset = data.load(tmp_path, made_up.settings('femnist'))
    # The second writer's training pixels are 1 everywhere, so its test pixels of 0.5 become 0.5 − 1.
    assert (dataset.train.client(1)[0] == 0.0).all() and (dataset.test.client(1)[0] == -0.5).all()



def test_hundred_writers_by_seed_or_all(tmp_path):
    clients = {f'f{i:04}': digits(1) for i in range(120)}
    write(tmp_path, clients, clients)
    names = [load(tmp_path, seed=seed).clients for seed in (0, 0, 1)]
    assert len(names[0]) == 100 and names[0] == names[1] != names[2]
    assert len(load(tmp_path, max_clients=0).clients) == 120


def test_unpacks_an_archive_put_there_by_hand(tmp_path):
    write(tmp_path / 'elsewhere', {'a': digits(2)}, {'a': digits(1)})
    (tmp_path / 'femnist').mkdir()
    with tarfile.open(tmp_path / 'femnist' / femnist.ARCHIVE.name, 'w:bz2') as archive:
        for name in femnist.NAMES:
            archive.add(tmp_path / 'elsewhere' / 'femnist' / name, name)
    assert load(tmp_path).train.sizes().tolist() == [2]
    assert sorted(path.name for path in (tmp_path / 'femnist').iterdir()) == sorted(
        (femnist.ARCHIVE.name, *femnist.NAMES))


def test_truncated_archive_is_one_sentence(tmp_path):
    (tmp_path / 'femnist').mkdir()
    (tmp_path / 'femnist' / femnist.ARCHIVE.name).write_bytes(b'BZh9 and no more')
    with pytest.raises(DataError, match='not a complete tar archive'):
        load(tmp_path)


@pytest.mark.parametrize('test, sentence', [
    ({'b': digits(1)}, "client 'a' is in only one of"),
    ({'a': digits(0)}, r'labels \(0,\) for writer a'),
    ({'a': digits(1, label=10)}, 'outside 0 to 9'),
    ({'a': digits(1, value=np.nan)}, r'pixels outside \[0, 1\]'),
    ({'a': {'pixels': np.zeros([1, 28, 28])}}, "no label for client 'a'")])
def test_bad_client_is_one_sentence(tmp_path, test, sentence):
    write(tmp_path, {'a': digits(2)}, test)
    with pytest.raises(DataError, match=sentence):
        load(tmp_path)
    assert not (tmp_path / 'prepared').exists()


def test_truncated_hdf5_is_one_sentence(tmp_path):
    write(tmp_path, {'a': digits(2)}, {'a': digits(1)})
    path = tmp_path / 'femnist' / femnist.NAMES[0]
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match='not a complete HDF5 file'):
        load(tmp_path)


def leaf_digits(count, label=3, value=0.25):
    return [[value] * 784] * count, [label] * count


def write_leaf(root, train, test):
    made_up.write_leaf(root / 'femnist' / 'train' / 'all_data_0_keep_0_train_9.json', train)
    path = root / 'femnist' / 'test' / 'all_data_0_keep_0_test_9.json'
    made_up.write_leaf(path, test)
    path.with_suffix('.json.gz').write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


def test_leaf_json_with_its_split_and_without_letters(tmp_path):
    def with_letters(x, y):
        return x + leaf_digits(9)[0], y + [10, 35, 61] * 3

    write_leaf(tmp_path, {'f9_1': leaf_digits(50, 9, 1.0), 'f1_2': with_letters(*leaf_digits(51)),
                          'few': with_letters(*leaf_digits(49)), 'untested': leaf_digits(60)},
               {'f1_2': with_letters(*leaf_digits(3, 0)), 'f9_1': leaf_digits(2, 7), 'few': leaf_digits(5),
                'untested': with_letters([], [])})
    for _ in range(2):   # from the files, then as prepared
        dataset = load(tmp_path)
        assert dataset.clients == ('writer f1_2', 'writer f9_1') and dataset.num_classes == 10
        assert dataset.train.sizes().tolist() == [51, 50] and dataset.test.sizes().tolist() == [3, 2]
        assert dataset.input_shape == (28, 28, 1) and dataset.train.x.dtype == np.float32
        assert set(dataset.train.client(0)[1]) == {3} and set(dataset.test.client(1)[1]) == {7}
        # The background is published as 1 and stays so.
        assert (dataset.train.client(1)[0] == 1).all() and (dataset.train.client(0)[0] == 0.25).all()
        assert dataset.caveat == 'FEMNIST digits (LEAF, 2 writers)'


def test_leaf_writers_by_seed_whatever_the_order_of_the_files(tmp_path):
    writers = {f'f{i:04}': leaf_digits(50, i % 10) for i in range(8)}
    write_leaf(tmp_path, writers, {writer: leaf_digits(1, i % 10) for i, writer in enumerate(writers)})
    write_leaf(tmp_path / 'reversed', dict(reversed(writers.items())), {writer: leaf_digits(1) for writer in writers})
    drawn = [load(root, max_clients=4, seed=seed) for root, seed in (
        (tmp_path, 0), (tmp_path / 'reversed', 0), (tmp_path, 1))]
    assert drawn[0].clients == drawn[1].clients != drawn[2].clients and len(drawn[0].clients) == 4
    assert drawn[0].caveat == 'FEMNIST digits (LEAF, 4 writers), drawn from 8'
    # A writer's examples come along: here its number is its class.
    assert [f'writer f{y:04}' for y in drawn[0].train.y[::50]] == list(drawn[0].clients)
    assert len(load(tmp_path, max_clients=0).clients) == 8


def test_tff_files_come_before_leaf_json(tmp_path):
    write_leaf(tmp_path, {'leaf': leaf_digits(50)}, {'leaf': leaf_digits(1)})
    write(tmp_path, {'tff': digits(2)}, {'tff': digits(1)})
    dataset = load(tmp_path)
    assert dataset.clients == ('writer tff',) and dataset.caveat == ''


@pytest.mark.parametrize('train, sentence', [
    (([[0.5] * 783] * 50, [1] * 50), r'shape \(783,\) where digits have 784'),
    (leaf_digits(50, value=255), r'pixels from 0 to 255, outside \[0, 1\]'),
    (leaf_digits(50, value=float('nan')), "client 'a' has an x that is not a finite number"),
    (leaf_digits(50, -1), "client 'a' has the label -1"),
    (leaf_digits(50, float('nan')), "client 'a' has a label that is not an integer"),
    (leaf_digits(50, 61), 'no writer of .* has 50 digits to train on'),
    (leaf_digits(49), 'no writer of .* has 50 digits to train on')])
def test_bad_leaf_digits_are_one_sentence(tmp_path, train, sentence):
    write_leaf(tmp_path, {'a': train}, {'a': (train[0][:1], [3])})
    with pytest.raises(DataError, match=sentence):
        load(tmp_path)


def test_leaf_letters_alone_are_one_sentence(tmp_path):
    write_leaf(tmp_path, {'a': leaf_digits(50, 61)}, {'a': leaf_digits(1, 61)})
    with pytest.raises(DataError, match='no examples'):
        load(tmp_path)


def test_leaf_text_in_its_place_is_one_sentence(tmp_path):
    write_leaf(tmp_path, {'a': (['ab'] * 4, ['c'] * 4)}, {'a': (['ab'] * 4, ['c'] * 4)})
    with pytest.raises(DataError, match='outside 0 to 9'):
        load(tmp_path)


def test_real_counts_of_leaf(real_data):
    root = real_data('femnist')
    whole, hundred = load(root, max_clients=0), load(root)
    # num_samples in the file of train/ is at least 50 for 279 of its 293 users.
    assert len(whole.clients) == 279 and whole.train.sizes().min() >= 50
    assert len(hundred.clients) == 100 and hundred.caveat == 'FEMNIST digits (LEAF, 100 writers), drawn from 279'
    assert whole.train.x[:, 0, 0].mean() > 0.99     # the background is 1
