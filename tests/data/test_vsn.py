"""The vehicle sensors: events tree and LEAF json."""
import made_up
import numpy as np
import pytest

from virtual_tf import data
from virtual_tf.data.federated import DataError


def half(rows, value):
    """A feature file: 50 features, then 4 columns that are none."""
    return made_up.text_of(np.concatenate([np.full([rows, 50], value), np.full([rows, 4], 99.0)], axis=1))


def events():
    return {
        'events/runs/aav3/n1/aav3evfeat1_1_1.txt': half(4, 0.1),
        'events/runs/aav3/n1/aav3evfeat1_1_2.txt': half(4, 0.2),
        'events/runs/aav3/n1/aav3event1_1_1.txt': 'a recording',
        'events/runs/dw5/n1/dw5evfeat1_1_1.txt': half(8, 0.3),
        'events/runs/dw5/n1/dw5evfeat1_1_2.txt': half(8, 0.4),
        'events/runs/dw5/s52/dw5evfeat52_1_1.txt': half(4, 0.5),
        'events/runs/dw5/s52/dw5evfeat52_1_2.txt': half(4, 0.6),
        'events/runs/dw5/n7/dw5evfeat7_1_1.txt': half(4, 0.7),
        'events/runs/aav3/acoustic_1/features/aav3evfeat1_1_1.txt': half(4, 0.8)}


def write_tree(root, content):
    for name, text in content.items():
        (root / 'vsn' / name).parent.mkdir(parents=True, exist_ok=True)
        (root / 'vsn' / name).write_text(text)


def load(root, **changes):
    return data.load(root, made_up.settings('vsn', **changes))


def write_zip(root, content):
    (root / 'vsn').mkdir()
    (root / 'vsn' / 'event.zip').write_bytes(made_up.zip_of(content))


@pytest.mark.parametrize('write', [write_tree, write_zip])
def test_events_as_tree_and_as_zip(tmp_path, write):
    write(tmp_path, events())
    for _ in range(2):
        dataset = load(tmp_path)
        # Sensor 7 has one file only, and the collected folders repeat what the sensors' have.
        assert dataset.clients == ('sensor 1', 'sensor 52') and dataset.num_classes == 2
        assert dataset.train.sizes().tolist() == [9, 3] and dataset.test.sizes().tolist() == [3, 1]
        x, y = dataset.train.client(0)
        assert x.shape == (9, 100) and np.bincount(y).tolist() == [6, 3]
        # Acoustic features before seismic ones; run aav3 is class 1.
        np.testing.assert_allclose(x[y == 1][0], np.repeat([0.1, 0.2], 50), rtol=1e-6)


@pytest.mark.parametrize('change, sentence', [
    ({'events/runs/aav3/n1/aav3evfeat1_1_2.txt': half(3, 0.2)}, '4 acoustic and 3 seismic rows for sensor 1 in run'),
    ({'events/runs/aav3/n1/aav3evfeat1_1_2.txt': made_up.text_of(np.zeros([4, 20]))}, 'lacks some of its 50'),
    ({'events/runs/aav3/n1/aav3evfeat1_1_2.txt': 'no number'}, 'not a table of numbers')])
def test_bad_events_are_one_sentence(tmp_path, change, sentence):
    write_tree(tmp_path, events() | change)
    with pytest.raises(DataError, match=sentence):
        load(tmp_path)


def test_archive_of_something_else_is_one_sentence(tmp_path):
    write_zip(tmp_path, {'readme.txt': ''})
    with pytest.raises(DataError, match='holds no events/runs'):
        load(tmp_path)


def test_leaf_labels_become_classes(tmp_path):
    made_up.write_leaf(tmp_path / 'vsn' / 'any.json', {'f_0': ([[0.0] * 100] * 8, [[-1], [1]] * 4)})
    dataset = load(tmp_path)
    assert dataset.clients == ('f_0',) and dataset.num_classes == 2 and dataset.caveat == ''
    assert np.bincount(dataset.train.y).tolist() == [3, 3] and np.bincount(dataset.test.y).tolist() == [1, 1]


def test_real_counts(real_data):
    dataset = load(real_data('vsn'))
    both = dataset.train.sizes() + dataset.test.sizes()
    assert (len(both), both.sum(), both.min(), both.max()) == (23, 1860, 7, 534)
    assert dataset.input_shape == (100,) and set(dataset.train.y) == {0, 1}
    assert '4.3 % sample' in dataset.caveat
    assert dataset.test.sizes().sum() == round(1860 / 4)
