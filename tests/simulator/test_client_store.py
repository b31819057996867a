from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from virtual_tf.core import safe_files
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.simulator import client_store
from virtual_tf.simulator.client_store import ClientStore, open_store


class State(NamedTuple):
    value: tf.Tensor
    nothing: dict


def fresh(ids):
    return State(tf.constant([[100.0 + i] for i in ids]), {})


def test_a_client_that_was_never_written_is_fresh():
    client_store = ClientStore(fresh)
    state = client_store.read([3, 1])
    assert isinstance(state, State) and state.nothing == {}
    assert np.array_equal(state.value, [[103.0], [101.0]])
    assert 3 not in client_store, 'reading stores nothing'


def test_what_was_written_is_read_back_in_the_order_asked_for_beside_fresh_clients():
    client_store = ClientStore(fresh)
    client_store.write(np.array([2, 0]), State(tf.constant([[2.0], [0.0]]), {}))
    assert 2 in client_store and 0 in client_store and 1 not in client_store
    assert np.array_equal(client_store.read([0, 1, 2]).value, [[0.0], [101.0], [2.0]])
    client_store.write([2], State(tf.constant([[7.0]]), {}))
    assert np.array_equal(client_store.read([2, 0]).value, [[7.0], [0.0]])


def test_fresh_is_asked_only_for_clients_that_have_no_state():
    asked = []
    client_store = ClientStore(lambda ids: asked.append(list(ids)) or fresh(ids))
    client_store.write([1], State(tf.constant([[1.0]]), {}))
    client_store.read([1])
    client_store.read([0, 1, 2])
    assert asked == [[0, 2]]


def test_a_stored_row_is_a_copy():
    client_store = ClientStore(fresh)
    values = np.array([[1.0], [2.0]])
    client_store.write([0, 1], State(values, {}))
    values[:] = -1.0
    read = client_store.read([0, 1]).value
    assert np.array_equal(read, [[1.0], [2.0]])
    read[:] = -1.0
    assert np.array_equal(client_store.read([0, 1]).value, [[1.0], [2.0]])


def written(values):
    return State(tf.constant([[float(value)] for value in values]), {})


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=['memory', 'disk'])
def filed(request, tmp_path):
    """A store with a folder; clients 0 and 1 written, then 1 and 2."""
    result = ClientStore(fresh, tmp_path, in_memory=request.param == 'memory')
    result.write([0, 1], written([10, 11]))
    result.write([1, 2], written([21, 22]))
    return result


def test_both_kinds_read_what_was_written_beside_fresh_clients(filed):
    assert np.array_equal(filed.read([2, 3, 0, 1]).value, [[22.0], [103.0], [10.0], [21.0]])
    assert 2 in filed and 3 not in filed


def test_on_disk_every_version_is_a_file_and_a_version_that_nobody_needs_is_none(tmp_path):
    disk = ClientStore(fresh, tmp_path, in_memory=False)
    disk.write([0, 1], written([10, 11]))
    assert names(tmp_path) == ['0.1', '1.1']
    disk.write([1, 2], written([21, 22]))
    assert names(tmp_path) == ['0.1', '1.2', '2.2'] and not disk._rows


def test_in_memory_only_a_save_writes_and_only_what_has_changed(tmp_path, monkeypatch):
    memory = ClientStore(fresh, tmp_path)
    memory.write([0, 1], written([10, 11]))
    assert names(tmp_path) == []
    assert memory.save() == {0: 1, 1: 1} and names(tmp_path) == ['0.1', '1.1']
    memory.write([1], written([21]))
    made = []
    monkeypatch.setattr(safe_files, 'write_record', lambda file, header, arrays: made.append(header))
    assert memory.save() == {0: 1, 1: 2} and made == [{'client': 1, 'version': 2}]


def test_versions_of_kept_manifests_stay_and_others_go(filed, tmp_path):
    first = filed.save()
    assert first == {0: 1, 1: 2, 2: 2}
    filed.keep([first])
    filed.write([0, 1], written([30, 31]))
    second = filed.save()
    filed.keep([first, second])
    assert names(tmp_path) == ['0.1', '0.3', '1.2', '1.3', '2.2']
    filed.write([1], written([41]))
    third = filed.save()
    filed.keep([second, third])
    assert names(tmp_path) == ['0.3', '1.3', '1.4', '2.2']
    assert np.array_equal(filed.read([0, 1, 2]).value, [[30.0], [41.0], [22.0]])


@pytest.mark.parametrize('in_memory', [True, False])
def test_a_restored_store_is_as_it_was_whatever_kind_it_was(filed, tmp_path, in_memory):
    manifest = filed.save()
    filed.keep([manifest])
    filed.write([0, 3], written([30, 33]))
    filed.save()     # and then the process is killed: no manifest knows of 0.3 and 3.3
    again = ClientStore(fresh, tmp_path, in_memory)
    again.restore(manifest, [manifest])
    assert names(tmp_path) == ['0.1', '1.2', '2.2']
    assert np.array_equal(again.read([0, 1]).value, [[10.0], [21.0]]), 'without a fresh client'
    assert np.array_equal(again.read([2, 3]).value, [[22.0], [103.0]])
    again.write([0], written([50]))
    assert again.save() == {0: 3, 1: 2, 2: 2}
    assert np.array_equal(again.read([0]).value, [[50.0]])


def test_a_damaged_missing_or_exchanged_file_is_noticed(filed, tmp_path):
    manifest = filed.save()
    client_store.verify(tmp_path, manifest)
    content = (tmp_path / '0.1').read_bytes()
    for damaged in (content[:-1], content[:20] + b'?' + content[21:], (tmp_path / '2.2').read_bytes()):
        (tmp_path / '0.1').write_bytes(damaged)
        with pytest.raises(safe_files.DamagedFileError, match=r'0\.1 is damaged'):
            client_store.verify(tmp_path, manifest)
        restored = ClientStore(fresh, tmp_path)
        restored.restore(manifest, [])
        with pytest.raises(safe_files.DamagedFileError, match='goes back to a checkpoint without that file'):
            restored.read([0])
    (tmp_path / '0.1').unlink()
    with pytest.raises(safe_files.DamagedFileError, match=r'0\.1 is missing'):
        client_store.verify(tmp_path, manifest)


def test_auto_is_memory_while_all_states_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(client_store, 'MEMORY_BUDGET', 400)     # a state is one float32: 100 of them fit
    assert open_store(fresh, 100, 'auto', tmp_path)._in_memory
    assert not open_store(fresh, 101, 'auto', tmp_path)._in_memory
    assert open_store(fresh, 101, 'memory', tmp_path)._in_memory
    assert not open_store(fresh, 1, 'disk', tmp_path)._in_memory
    assert open_store(fresh, 101, 'auto')._in_memory, 'without a folder there is only memory'
    with pytest.raises(VirtualTfError, match='store=disk needs the folder of a run'):
        open_store(fresh, 1, 'disk')


def test_reading_a_cohort_touches_no_other_clients_file(tmp_path, monkeypatch):
    disk = ClientStore(fresh, tmp_path, in_memory=False)
    disk.write(range(50), written(range(50)))
    opened, read = [], safe_files.read_record
    monkeypatch.setattr(safe_files, 'read_record', lambda path: opened.append(path.name) or read(path))
    disk.read([3, 7])
    assert opened == ['3.1', '7.1']


def test_a_write_looks_for_no_other_clients_superseded_version(tmp_path):
    # Between two checkpoints nearly every client may be superseded and kept; a round must not go through them all.
    asked = []

    class Manifest(dict):
        def get(self, client):
            asked.append(client)
            return super().get(client)

    disk = ClientStore(fresh, tmp_path, in_memory=False)
    disk.write(range(50), written(range(50)))
    disk.keep([Manifest(disk.save())])
    disk.write(range(50), written(range(50)))
    asked.clear()
    disk.write([3, 7], written([33, 37]))
    assert asked == [3, 7]
    disk.keep([disk.save()])
    assert len(names(tmp_path)) == 50 and {'3.3', '7.3', '8.2'} < set(names(tmp_path))
