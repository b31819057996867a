"""The roles' lines as sequences of characters."""
import re
import subprocess
import sys
import time

import made_up
import numpy as np
import pytest

from virtual_tf import data
from virtual_tf.data import shakespeare
from virtual_tf.data.federated import DataError


def write(root, roles):
    """{role: (training snippets, test snippets)}"""
    for i, name in enumerate(shakespeare.NAMES):
        made_up.write_h5(root / 'shakespeare' / name, {
            role: {'snippets': np.asarray(snippets[i], dtype='S')} for role, snippets in roles.items()})


def load(root, **changes):
    return data.load(root, made_up.settings('shakespeare', **changes))


def decode(ids):
    return ''.join(shakespeare.VOCABULARY[i - 1] if i else '_' for i in ids)


def test_vocabulary_is_tffs():
    assert len(set(shakespeare.VOCABULARY)) == len(shakespeare.VOCABULARY) == 86
    assert shakespeare.encode(b'dh\r}\xe9').tolist() == [1, 2, 86, 0, 0]


@pytest.mark.parametrize('length, count', [(0, 0), (1, 0), (2, 1), (81, 1), (82, 1), (83, 2), (162, 2)])
def test_number_of_sequences(length, count):
    # 81 characters are a full one; a remainder of one has no character after it to predict.
    x, y = shakespeare.sequences(np.ones(length, np.int32))
    assert x.shape == y.shape == (count, 80) and x.dtype == y.dtype == np.int32
    assert (y >= 0).sum() == length - count - (length % 81 == 1)


def test_targets_are_the_next_characters():
    text = b'To be, or not to be: ' * 5
    x, y = shakespeare.sequences(shakespeare.encode(text))
    assert decode(x[0]) == text[:80].decode() and decode(y[0]) == text[1:81].decode()
    rest = len(text) - 81
    assert decode(x[1, :rest - 1]) == text[81:-1].decode() and decode(y[1, :rest - 1]) == text[82:].decode()
    assert (y[1, rest - 1:] == -1).all() and (x[1, rest:] == 0).all()


def test_unknown_character_is_read_but_no_target():
    x, y = shakespeare.sequences(shakespeare.encode(b'a}b'))
    assert x[0, :3].tolist() == [*shakespeare.encode(b'a}b')] and x[0, 1] == 0
    assert y[0, :2].tolist() == [-1, *shakespeare.encode(b'b')]


def test_roles_need_a_full_batch_in_both_files(tmp_path):
    write(tmp_path, {'D': (['a' * 500, 'b' * 310], ['c' * 810]), 'C': (['a' * 809], ['c' * 900]),
                     'B': (['a' * 900], ['']), 'A': (['a' * 900], ['c' * 811])})
    for _ in range(2):
        dataset = load(tmp_path)
        assert dataset.clients == ('A', 'D') and dataset.num_classes == 87
        assert dataset.train.sizes().tolist() == [12, 10] and dataset.test.sizes().tolist() == [10, 10]
        # Snippets follow one another: 500 = 6 · 81 + 14 characters a, then b.
        assert decode(dataset.train.client(1)[0][6][:16]) == 'a' * 14 + 'bb'
    assert load(tmp_path, max_clients=1).clients == ('A',)


def test_bad_files_are_one_sentence(tmp_path):
    write(tmp_path, {'A': (['short'], ['short'])})
    with pytest.raises(DataError, match=r'no role of .* has 810 characters in both'):
        load(tmp_path)
    (tmp_path / 'shakespeare' / shakespeare.NAMES[1]).write_bytes(b'not HDF5')
    with pytest.raises(DataError, match='not a complete HDF5 file'):
        load(tmp_path)


def test_real_counts(real_data):
    root = real_data('shakespeare')
    texts = shakespeare.read_texts([root / 'shakespeare' / name for name in shakespeare.NAMES])
    lengths = np.array([[len(text) for text in pair] for pair in texts.values()])
    assert len(texts) == 715 and lengths.sum(axis=0).tolist() == [2359315, 339752]
    full = lengths[(lengths >= 810).all(axis=1)]
    assert len(full) == 120 and full[:100, 0].sum() == 1293020
    assert round(full[:100, 0].mean()) == 12930 and round(full[:100, 0].std()) == 11314
    dataset = load(root)
    assert len(dataset.clients) == 100 and list(dataset.clients) == sorted(dataset.clients)
    # Every sequence has one character more than targets; no role here has a remainder of one or an unknown character.
    np.testing.assert_array_equal(dataset.train.targets() + dataset.train.sizes(), full[:100, 0])
    assert len(load(root, max_clients=0).clients) == 120


@pytest.mark.slow   # measures the clock
def test_real_data_loads_in_time_and_memory(real_data):
    root = real_data('shakespeare')
    started = time.perf_counter()
    load(root)
    assert time.perf_counter() - started < 10.0
    started = time.perf_counter()
    load(root)
    assert time.perf_counter() - started < 2.0
    # The kernel's own account of a fresh process: getrusage starts from what its parent had.
    program = ('from virtual_tf.data import shakespeare; '
               f'shakespeare.read([{str(root)!r} + "/shakespeare/" + name for name in shakespeare.NAMES], 0); '
               'print(open("/proc/self/status").read())')
    status = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, check=True).stdout
    assert int(re.search(r'VmHWM:\s+(\d+) kB', status)[1]) < 1e6
