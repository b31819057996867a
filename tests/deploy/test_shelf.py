"""What a client and the server keep on disk."""
import numpy as np
import pytest

from virtual_tf.core import safe_files
from virtual_tf.deploy.ledger import FolderLedger, next_start
from virtual_tf.deploy.protocol import START, Order, Pending, reconcile
from virtual_tf.deploy.shelf import FolderShelf


def open_shelf(folder):
    return FolderShelf(folder / 'client', lambda: {'factor': np.float32([1.0, 2.0])})


def commit(state, content, shrink):
    header, arrays = content
    return {'factor': state['factor'] + header['rate'] * np.float32(shrink) * arrays[0]}


def test_a_shelf_survives_the_process(tmp_path):
    reconcile(open_shelf(tmp_path), Order(5, START, None, ()), commit)
    open_shelf(tmp_path).put_pending(5, Pending(START, ({'rate': 0.5}, [np.float32([10, 20])])))
    state = reconcile(open_shelf(tmp_path), Order(6, 5, 0.5, ()), commit)
    np.testing.assert_array_equal(state['factor'], [3.5, 7.0])     # 1 + 0.5·0.5·10, 2 + 0.5·0.5·20
    np.testing.assert_array_equal(open_shelf(tmp_path).state(5)['factor'], state['factor'])
    assert open_shelf(tmp_path).last() == 6 and open_shelf(tmp_path).pending(5) is None


def test_a_shelf_forgets_what_no_head_needs(tmp_path):
    shelf = open_shelf(tmp_path)
    for version in range(1, 5):
        shelf.put_state(version, {'factor': np.float32([version, 0])})
    shelf.put_pending(6, Pending(2, ({}, [])))
    shelf.keep({3, 6})
    # 2 is what the pending one started from
    assert [shelf.state(version) is not None for version in range(1, 5)] == [False, True, True, False]


def test_damage_is_seen_and_half_a_file_is_not_a_state(tmp_path):
    shelf = open_shelf(tmp_path)
    shelf.put_state(1, {'factor': np.float32([1, 1])})
    path = tmp_path / 'client' / 'state.1'
    path.with_name('state.2.tmp').write_bytes(b'half')
    shelf.keep({1})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(safe_files.DamagedFileError):
        shelf.state(1)


def test_starts_of_a_server_never_share_a_generation(tmp_path, monkeypatch):
    first = next_start(tmp_path)
    monkeypatch.setattr('time.time', lambda: 0.0)     # a clock that was set back
    second = next_start(tmp_path)
    assert second.run == first.run and second.generation == first.generation + 1
    assert next_start(tmp_path / 'another').run != first.run


def test_a_ledger_goes_back_with_its_checkpoint(tmp_path):
    ledger = FolderLedger(tmp_path)
    ledger.applied([0, 1], 10, b'r of 10')
    old = ledger.save()
    ledger.keep([old])
    ledger.applied([1], 11, b'r of 11')
    assert ledger.order(1, 12) == Order(12, 11, b'r of 11', (10,))
    again = FolderLedger(tmp_path)
    again.restore(old, [])
    assert again.order(1, 13) == Order(13, 10, b'r of 10', ())
    assert again.order(2, 13) == Order(13, START, None, ())
    new = ledger.save()
    ledger.keep([new])
    assert sorted(path.name for path in tmp_path.iterdir()) == ['0.10', '1.11']
