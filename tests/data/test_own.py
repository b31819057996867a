"""leaf:PATH and npz:PATH, and what is refused or skipped."""
import gzip
import json
import time

import made_up
import numpy as np
import pytest

from virtual_tf import data
from virtual_tf.data.federated import DataError

GOOD = ([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [0.2, 0.8]] * 2, [0, 1, 1, 0] * 2)
USERS = {'ann': GOOD, 'bob': GOOD}


def load(path, kind='leaf', **changes):
    return data.load(path.parent / 'root', made_up.settings(f'{kind}:{path}', **changes))


def write_npz(path, users=USERS, **changes):
    arrays = {'x': np.concatenate([x for x, _ in users.values()]), 'y': np.concatenate([y for _, y in users.values()]),
              'client': np.repeat(list(users), [len(y) for _, y in users.values()])}
    np.savez(path, **{key: value for key, value in (arrays | changes).items() if value is not None})
    return path


def test_leaf_folder_is_split(tmp_path):
    made_up.write_leaf(tmp_path / 'mine' / 'all.json', USERS)
    dataset = load(tmp_path / 'mine')
    assert dataset.name == 'leaf:mine' and dataset.clients == ('ann', 'bob') and dataset.num_classes == 2
    # A quarter of 4 examples of each class.
    assert [np.bincount(dataset.test.client(i)[1]).tolist() for i in range(2)] == [[1, 1], [1, 1]]
    assert dataset.train.sizes().tolist() == [6, 6] and dataset.caveat == ''


def test_leaf_folder_with_its_own_split_in_several_files(tmp_path):
    made_up.write_leaf(tmp_path / 'mine' / 'train' / 'a.json', {'bob': GOOD})
    made_up.write_leaf(tmp_path / 'mine' / 'train' / 'b.json', {'ann': GOOD})
    made_up.write_leaf(tmp_path / 'mine' / 'test' / 'a.json', {'ann': ([[9.0, 9.0]], [1]), 'bob': ([[8.0, 8.0]], [0])})
    path = tmp_path / 'mine' / 'train' / 'b.json'
    path.with_suffix('.json.gz').write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    dataset = load(tmp_path / 'mine')
    tests = {name: dataset.test.client(i)[0].tolist() for i, name in enumerate(dataset.clients)}
    assert tests == {'ann': [[9.0, 9.0]], 'bob': [[8.0, 8.0]]}
    assert dataset.train.sizes().tolist() == [8, 8]


def test_leaf_text_predicts_the_character_after_it(tmp_path):
    users = {'a': (['abcd', 'bcde', 'cdef', 'defg'], ['e', 'f', 'g', 'h'])}
    made_up.write_leaf(tmp_path / 'mine' / 'a.json', users)
    dataset = load(tmp_path / 'mine')
    assert dataset.train.x.shape == dataset.train.y.shape == (3, 4) and dataset.train.x.dtype == np.int32
    assert (dataset.train.y[:, :-1] == -1).all() and (dataset.train.y[:, -1] > 0).all()


@pytest.mark.parametrize('x, shape', [
    (np.zeros([16, 5], np.float64), (5,)),
    (np.zeros([16, 6, 7], np.float32), (6, 7, 1)),
    (np.zeros([16, 6, 7, 3], np.float32), (6, 7, 3))])
def test_npz_shapes(tmp_path, x, shape):
    dataset = load(write_npz(tmp_path / 'mine.npz', x=x), 'npz')
    assert dataset.input_shape == shape and dataset.train.x.dtype == np.float32 and dataset.name == 'npz:mine.npz'


def test_npz_bytes_are_pixels(tmp_path):
    dataset = load(write_npz(tmp_path / 'mine.npz', x=np.full([16, 4, 4], 51, np.uint8)), 'npz')
    np.testing.assert_allclose(dataset.train.x, 0.2, rtol=1e-6)      # 51 / 255


def test_npz_sequences(tmp_path):
    ids = np.arange(16 * 3).reshape(16, 3) % 7
    targets = np.where(ids == 0, -1, ids)
    dataset = load(write_npz(tmp_path / 'mine.npz', x=ids, y=targets), 'npz')
    assert dataset.train.y.shape[1:] == (3,) and dataset.num_classes == 7 and dataset.train.x.dtype == np.int32
    assert dataset.test.sizes().tolist() == [2, 2]                   # a quarter of 8


def test_npz_with_its_own_split_and_numbers_as_names(tmp_path):
    test = np.arange(16) % 4 == 3
    dataset = load(write_npz(tmp_path / 'mine.npz', client=np.repeat([30, 4], 8), test=test, num_classes=5), 'npz')
    assert dataset.clients == ('4', '30') and dataset.num_classes == 5
    assert dataset.test.sizes().tolist() == [2, 2] and dataset.train.sizes().tolist() == [6, 6]


REFUSED = [
    ({'bob': ([[0.0, float('nan')], [1.0, 1.0]], [0, 1])}, "client 'bob' has an x that is not a finite number"),
    ({'bob': ([[0.0, 1.0], [1.0, 1.0]], [0, -3])}, "client 'bob' has the label -3, below 0"),
    ({'bob': ([[0.0, 1.0], [1.0, 1.0]], [0, 0.5])}, "client 'bob' has a label that is not an integer")]


@pytest.mark.parametrize('users, sentence', REFUSED)
def test_what_is_wrong_is_refused_by_name(tmp_path, users, sentence):
    made_up.write_leaf(tmp_path / 'mine' / 'a.json', USERS | users)
    for path, kind in ((tmp_path / 'mine', 'leaf'), (write_npz(tmp_path / 'mine.npz', USERS | users), 'npz')):
        with pytest.raises(DataError, match=sentence):
            load(path, kind)
    assert not (tmp_path / 'root').exists()


def test_test_label_beyond_the_training_labels_is_refused(tmp_path):
    made_up.write_leaf(tmp_path / 'mine' / 'train' / 'a.json', USERS)
    made_up.write_leaf(tmp_path / 'mine' / 'test' / 'a.json', {'ann': GOOD, 'bob': ([[0.0, 0.0]], [2])})
    with pytest.raises(DataError, match="client 'bob' has the label 2, outside 0 to 1"):
        load(tmp_path / 'mine')
    with pytest.raises(DataError, match="client 'ann' has the label 1, outside 0 to 0"):
        load(write_npz(tmp_path / 'mine.npz', num_classes=1), 'npz')


@pytest.mark.parametrize('changes, sentence', [
    ({'users': ['ann', 'bob', 'eve'], 'num_samples': [8, 8, 8]}, "lists user 'eve' and has no x and y"),
    ({'num_samples': [8, 7]}, "8 x and 8 y for user 'bob' and num_samples 7"),
    ({'num_samples': [8]}, '2 users and 1 num_samples'),
    ({'user_data': []}, 'has not the keys users and user_data'),
    ({'users': None}, 'has not the keys users and user_data'),
    ({'num_samples': None}, '2 users and no list of num_samples'),
    ({'user_data': {'ann': {'x': 5, 'y': [1]}}}, "lists user 'ann' and has no x and y, two lists"),
    ({'users': [], 'num_samples': []}, 'no examples at all')])
def test_file_that_contradicts_itself_is_refused(tmp_path, changes, sentence):
    made_up.write_leaf(tmp_path / 'mine' / 'a.json', USERS, changes)
    with pytest.raises(DataError, match=sentence):
        load(tmp_path / 'mine')


@pytest.mark.parametrize('x, sentence', [
    ([[0.0, 1.0, 2.0]] * 8, r"user 'bob' has x of shape \(3,\) where others have \(2,\)"),
    ([[0.0]] * 7 + [[0.0, 1.0]], "examples of user 'bob' differ in shape"),
    ([['a', 'b']] * 8, "user 'bob' has x or y that are not numbers"),
    (['one.png', 'two'] * 4, "user 'bob' has text as x"),
    (['abc', 5] * 4, "user 'bob' has text as x")])
def test_shapes_that_differ_are_refused(tmp_path, x, sentence):
    made_up.write_leaf(tmp_path / 'mine' / 'a.json', {'ann': GOOD, 'bob': (x, GOOD[1])})
    with pytest.raises(DataError, match=sentence):
        load(tmp_path / 'mine')


def test_labels_of_two_shapes_are_refused(tmp_path):
    made_up.write_leaf(tmp_path / 'mine' / 'a.json', {'ann': GOOD, 'bob': (GOOD[0], [[label] for label in GOOD[1]])})
    with pytest.raises(DataError, match=r"user 'bob' has y of shape \(1,\) where others have \(\)"):
        load(tmp_path / 'mine')


def test_a_file_beside_train_and_test_is_refused(tmp_path):
    for part in ('train', 'test'):
        made_up.write_leaf(tmp_path / 'mine' / part / 'a.json', USERS)
    made_up.write_leaf(tmp_path / 'mine' / 'all_data.json', USERS)
    with pytest.raises(DataError, match=r'has all_data\.json beside train/.*; move it away'):
        load(tmp_path / 'mine')


def test_classes_that_nobody_has_are_counted_each_time(tmp_path, caplog):
    path = write_npz(tmp_path / 'mine.npz', y=np.array([0, 100_000, 200_000, 0] * 4))
    for _ in range(2):   # also when it comes prepared
        caplog.clear()
        assert load(path, 'npz').num_classes == 200_001
        assert ('npz:mine.npz: 199998 of 200001 classes have no example, as the largest label is 200000; if they are '
                'not meant, number the labels from 0: y = np.unique(y, return_inverse=True)[1]') in caplog.text


@pytest.mark.parametrize('changes', [
    {}, {'num_classes': 5}, {'client': np.zeros(16), 'y': np.array([0, 3] * 8)},     # the classes of others
    {'y': np.array([-1, 1] * 8)}, {'x': np.array([[0, 9]] * 16), 'y': np.array([[9, 2]] * 16)}])
def test_classes_that_are_meant_are_not_counted(tmp_path, caplog, changes):
    load(write_npz(tmp_path / 'mine.npz', **changes), 'npz')
    assert 'no example' not in caplog.text


NAMES = ['dog', 'cat', 'cat', 'eel', 'dog', 'eel', 'cat', 'dog']
NUMBERS = [1, 0, 0, 2, 1, 2, 0, 1]     # cat, dog, eel


@pytest.mark.parametrize('convert', [
    np.asarray, lambda names: np.asarray(names, 'S'), lambda names: [[name] for name in names]])
def test_npz_labels_may_be_names(tmp_path, caplog, convert):
    test = np.arange(16) % 2 == 0
    dataset = load(write_npz(tmp_path / 'mine.npz', y=convert(NAMES * 2), test=test), 'npz')
    assert dataset.num_classes == 3 and 'labels are numbered: cat 0, dog 1, eel 2' in caplog.text
    for i in range(2):
        assert dataset.test.client(i)[1].tolist() == NUMBERS[::2]
        assert dataset.train.client(i)[1].tolist() == NUMBERS[1::2]


def test_leaf_labels_may_be_names_that_mean_the_same_in_every_file(tmp_path, caplog):
    made_up.write_leaf(tmp_path / 'mine' / 'train' / 'a.json', {'ann': (GOOD[0], NAMES)})
    made_up.write_leaf(tmp_path / 'mine' / 'train' / 'b.json', {'bob': (GOOD[0], ['eel', 'dog'] * 4)})
    made_up.write_leaf(tmp_path / 'mine' / 'test' / 'a.json', {
        'ann': (GOOD[0][:1], ['dog']), 'bob': (GOOD[0][:1], ['eel'])})
    dataset = load(tmp_path / 'mine')
    assert [dataset.train.client(i)[1].tolist() for i in range(2)] == [NUMBERS, [2, 1] * 4]
    assert dataset.test.y.tolist() == [1, 2] and 'cat 0, dog 1, eel 2' in caplog.text


def test_names_that_cannot_be_numbered_are_refused(tmp_path):
    path = tmp_path / 'mine.npz'
    with pytest.raises(DataError, match="client 'bob' has the label 'eel', which no training example has; correct it"):
        load(write_npz(path, y=['cat', 'dog'] * 7 + ['dog', 'eel'], test=np.arange(16) > 13), 'npz')
    # A machine of its own would number its own names, and others theirs.
    with pytest.raises(DataError, match=r'one client.*; number the names alike everywhere: y = np\.searchsorted'):
        load(write_npz(path, {'ann': (GOOD[0], NAMES)}), 'npz')
    made_up.write_leaf(tmp_path / 'mine' / 'a.json', {'ann': GOOD, 'bob': (GOOD[0], NAMES)})
    with pytest.raises(DataError, match="user 'bob' and others some have numbers as y and some names; give all"):
        load(tmp_path / 'mine')


def test_small_clients_are_skipped_by_what_is_left_after_the_split(tmp_path, caplog):
    # Of two examples one is left to train on; of 0, 0, 1 the split takes the 1; of 0, 1, 1 it takes a 1 of two.
    users = USERS | {name: ([[0.0, 1.0]] * len(y), y) for name, y in (
        ('pair', [0, 1]), ('uneven', [0, 0, 1]), ('enough', [0, 1, 1]), ('alone', [0]))}
    made_up.write_leaf(tmp_path / 'mine' / 'a.json', users)
    dataset = load(tmp_path / 'mine')
    assert dataset.clients == ('ann', 'bob', 'enough') and dataset.caveat == '3 of 6 clients skipped'
    assert dataset.train.sizes().tolist() == [6, 6, 2] and dataset.test.sizes().tolist() == [2, 2, 1]
    assert "with one example to train on: 'pair', 'alone'" in caplog.text
    assert "with one class to train on: 'uneven'" in caplog.text


def test_small_clients_are_skipped_by_name_each_time(tmp_path, caplog):
    made_up.write_leaf(tmp_path / 'mine' / 'train' / 'a.json', USERS | {
        'untested': GOOD, 'alone': ([[0.0, 1.0]], [0]), 'single': ([[0.0, 1.0]] * 3, [1, 1, 1]), 'empty': ([], [])})
    made_up.write_leaf(tmp_path / 'mine' / 'test' / 'a.json', USERS | {
        'untrained': GOOD, 'alone': GOOD, 'single': GOOD})
    for _ in range(2):   # also when it comes prepared
        caplog.clear()
        dataset = load(tmp_path / 'mine')
        assert dataset.clients == ('ann', 'bob') and dataset.caveat == '5 of 7 clients skipped'
        for sentence in ("2 of 7 clients with no training data: 'empty', 'untrained'",
                         "1 of 7 clients with no test data: 'untested'",
                         "1 of 7 clients with one example to train on: 'alone'",
                         "1 of 7 clients with one class to train on: 'single'"):
            assert sentence in caplog.text


def test_nobody_left_is_refused(tmp_path):
    made_up.write_leaf(tmp_path / 'mine' / 'a.json', {'ann': ([[0.0, 1.0]], [0]), 'bob': ([[0.0, 1.0]] * 2, [1, 1])})
    with pytest.raises(DataError, match=r"no client that can be used .*'ann'.*'bob'"):
        load(tmp_path / 'mine')


def test_long_lists_of_skipped_clients_are_cut(tmp_path, caplog):
    users = {f'u{i}': ([[0.0, 1.0]], [0]) for i in range(25)}
    load(write_npz(tmp_path / 'mine.npz', USERS | users), 'npz')
    assert 'skipped 25 of 27 clients' in caplog.text and 'and 5 more' in caplog.text


def test_broken_files_are_one_sentence(tmp_path):
    folder = tmp_path / 'mine'
    folder.mkdir()
    for name, content, sentence in (
            ('a.json', b'{"users": [', 'not complete json'), ('a.json', b'[]', 'has not the keys users and user_data'),
            ('a.json.gz', gzip.compress(json.dumps(USERS).encode())[:40], 'not complete json')):
        (folder / name).write_bytes(content)
        with pytest.raises(DataError, match=sentence):
            load(folder)
        (folder / name).unlink()
    with pytest.raises(DataError, match=r'has no \.json files'):
        load(folder)
    made_up.write_leaf(folder / 'test' / 'a.json', USERS)
    with pytest.raises(DataError, match='has test/ but no train/'):
        load(folder)


def test_broken_archives_are_one_sentence(tmp_path):
    path = tmp_path / 'mine.npz'
    with pytest.raises(DataError, match='does not exist; put the path of your data after npz:'):
        load(path, 'npz')
    path.write_bytes(b'no archive')
    with pytest.raises(DataError, match='not a NumPy archive'):
        load(path, 'npz')
    for changes, sentence in (
            ({'tset': np.zeros(4)}, "array 'tset' that nothing reads; known are x, y, client, test"),
            ({'client': None}, 'lacks client'), ({'y': np.zeros(3)}, 'arrays of lengths'),
            ({'client': np.array([{}] * 16)}, 'not as objects'), ({'x': np.zeros(16)}, r'x of shape \(16,\)'),
            ({'x': np.full([16, 2], 'a')}, 'give numbers'), ({'x': np.array(1.0)}, 'arrays of lengths'),
            ({'y': np.zeros([16, 3], int)}, 'x must be ids from 0 of the same shape')):
        with pytest.raises(DataError, match=sentence):
            load(write_npz(path, **changes), 'npz')


@pytest.mark.slow   # measures the clock
def test_many_clients_take_no_quadratic_time(tmp_path):
    seconds = []
    for count in (2_000, 20_000):
        path = tmp_path / f'{count}.npz'
        np.savez(path, x=np.zeros([4 * count, 2]), y=np.arange(4 * count) % 2, client=np.repeat(np.arange(count), 4))
        started = time.perf_counter()
        assert len(load(path, 'npz').clients) == count
        seconds.append(time.perf_counter() - started)
    assert seconds[1] < 40 * max(seconds[0], 0.05)      # ten times the clients; quadratic would be a hundred
