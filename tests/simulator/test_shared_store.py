import numpy as np
import pytest
import tensorflow as tf

from virtual_tf.simulator import client_store, shared_store
from virtual_tf.simulator.shared_store import SharedStore, WorkerStore


def fresh(ids):
    return {'w': tf.constant([[float(i), 0.0] for i in ids])}


def states(ids, value):
    return {'w': np.array([[i, value] for i in ids], np.float32)}


def read(store, ids, versions):
    return store.read_versions(ids, versions)['w'][:, 1].tolist()


@pytest.fixture(params=[None, 1, 0], ids=['memory', 'one row', 'files'])
def stores(request, tmp_path):
    """The driver's, and those of two workers."""
    workers = [WorkerStore(fresh, tmp_path, request.param) for _ in range(2)]
    return SharedStore(fresh, tmp_path, lambda: [one for worker in workers for one in worker.sync()]), *workers


def test_a_client_goes_from_worker_to_worker(stores):
    driver, first, second = stores
    assert driver.versions([3, 5]) == [0, 0] and read(first, [3, 5, 5], [0, 0, 0]) == [0.0, 0.0, 0.0]
    first.write_version([3, 5], states([3, 5], 1.0), driver.next_version)
    driver.written([3, 5])
    assert driver.versions([3, 5, 7]) == [1, 1, 0] and read(second, [5, 7], [1, 0]) == [1.0, 0.0]
    second.write_version([5], states([5], 2.0), driver.next_version)
    driver.written([5])
    # The first worker has an old state of client 5 in memory.
    assert read(first, [3, 5], driver.versions([3, 5])) == [1.0, 2.0]
    assert driver.read([3, 5])['w'][:, 1].tolist() == [1.0, 2.0]


def test_what_was_written_and_does_not_count_is_as_if_it_had_never_been(stores):
    driver, first, second = stores
    first.write_version([3], states([3], 1.0), driver.next_version)     # and the round is not finished
    assert 3 not in driver and read(first, [3], driver.versions([3])) == [0.0]
    second.write_version([3], states([3], 4.0), driver.next_version)
    driver.written([3])
    assert read(first, [3], [1]) == [4.0] and read(second, [3], [1]) == [4.0]


def test_checkpoints_are_those_of_one_process(stores, tmp_path):
    driver, first, second = stores
    for worker, ids, value in ((first, [1, 2], 1.0), (second, [2], 2.0)):
        worker.write_version(ids, states(ids, value), driver.next_version)
        driver.written(ids)
        manifest = driver.save()
        driver.keep([manifest])
    assert manifest == {1: 1, 2: 2} and sorted(path.name for path in tmp_path.iterdir()) == ['1.1', '2.2']
    local = client_store.ClientStore(fresh, tmp_path)
    local.restore(manifest, [])
    assert local.read([0, 1, 2])['w'][:, 1].tolist() == [0.0, 1.0, 2.0]


def test_files_of_a_worker_that_is_gone_are_synced_by_the_driver(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(shared_store.safe_files, 'sync', synced.append)
    gone, driver = WorkerStore(fresh, tmp_path, None), SharedStore(fresh, tmp_path, list)
    gone.write_version([4], states([4], 1.0), driver.next_version)
    driver.written([4])
    driver.save()
    assert synced == [tmp_path / '4.1', tmp_path]


def test_the_budget_is_a_number_of_rows(monkeypatch):
    monkeypatch.setattr(client_store, 'MEMORY_BUDGET', 100)
    # 2 float32 a client: 100 // 8
    assert [shared_store.rows_in_memory(fresh, kind) for kind in ('memory', 'disk', 'auto')] == [None, 0, 12]
