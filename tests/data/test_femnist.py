"""TFF's digits by writer."""
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
    return data.load(root, made_up.settings('femnist', **changes))


def test_reads_the_published_layout_with_its_split(tmp_path):
    write(tmp_path, {'f0_01': digits(3), 'f1_02': digits(2, 1.0, 9)}, {'f0_01': digits(1), 'f1_02': digits(4, 0.5, 0)})
    for _ in range(2):   # from the files, then as prepared
        dataset = load(tmp_path)
        assert dataset.clients == ('writer f0_01', 'writer f1_02')
        assert dataset.train.sizes().tolist() == [3, 2] and dataset.test.sizes().tolist() == [1, 4]
        assert dataset.input_shape == (28, 28, 1) and dataset.train.x.dtype == np.float32
        assert dataset.test.client(1)[0].max() == 0.5 and dataset.train.client(1)[1].tolist() == [9, 9]
        assert dataset.num_classes == 10


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
