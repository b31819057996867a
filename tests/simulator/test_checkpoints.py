"""A run of a few numbers stands for the real one: what is tested is which bytes survive."""
import errno
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from virtual_tf.core import safe_files
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.simulator import checkpoints
from virtual_tf.simulator.checkpoints import Checkpoints
from virtual_tf.simulator.client_store import ClientStore
from virtual_tf.simulator.evaluation import Scores
from virtual_tf.simulator.rounds import RunState

CLIENTS, ROUNDS = 5, 7
IDENTITY = {'settings': {'client_lr': 0.1}, 'data': 'abc'}


def fresh(ids):
    return {'value': tf.constant([[0.1 * i, -1.0] for i in ids])}


def start(points, in_memory):
    scores = {model: Scores({'loss': np.zeros(CLIENTS), 'hits': np.zeros(CLIENTS)}, np.ones(CLIENTS))
              for model in ('mt', 'val_mt')}
    return RunState({'w': tf.constant([1.0, 2.0])}, ClientStore(fresh, points.clients_folder, in_memory), 0, scores)


def play_round(state):
    """Numbers that depend on everything before."""
    state.round += 1
    ids = np.array([state.round % CLIENTS, (2 * state.round + 1) % CLIENTS])[:1 + state.round % 2]
    old = state.clients.read(ids)['value']
    new = old * 0.7 + state.server['w'] * 0.3
    state.clients.write(ids, {'value': new})
    state.server = {'w': state.server['w'] + tf.reduce_sum(new - old, axis=0)}
    for scores in state.scores.values():
        scores.sums['loss'][ids] += np.asarray(new)[:, 0]
        scores.sums['hits'][ids] += state.round


def contents(state):
    scores = {model: value.sums for model, value in state.scores.items()}
    return [np.asarray(leaf) for leaf in tf.nest.flatten(
        (state.round, state.server, state.clients.read(range(CLIENTS)), scores))]


def assert_same(first, second):
    for a, b in zip(contents(first), contents(second), strict=True):
        assert a.dtype == b.dtype and np.array_equal(a, b)


def run(folder, rounds, in_memory=True, every=1):
    """Continues to that many rounds in the folder, as a process would."""
    points = Checkpoints(folder)
    found = points.newest()
    state = start(points, in_memory)
    if found is not None:
        points.restore(state, found)
    while state.round < rounds:
        play_round(state)
        if state.round % every == 0:
            points.save(state, IDENTITY)
    return state


def uninterrupted(rounds):
    points = Checkpoints(pathlib.Path('/nowhere'))
    state = start(points, in_memory=True)
    state.clients = ClientStore(fresh)
    for _ in range(rounds):
        play_round(state)
    return state


def names(folder):
    return sorted(path.name for path in folder.glob('round-*'))


@pytest.mark.parametrize('in_memory', [True, False])
def test_a_restored_state_is_the_saved_one_and_goes_on_alike(tmp_path, in_memory):
    assert_same(run(tmp_path, 4, in_memory), uninterrupted(4))
    points = Checkpoints(tmp_path)
    found = points.newest()
    assert (found.round, found.identity) == (4, IDENTITY)
    assert_same(run(tmp_path, 4, not in_memory), uninterrupted(4))
    assert_same(run(tmp_path, ROUNDS, in_memory), uninterrupted(ROUNDS))


def test_without_a_file_there_is_no_checkpoint(tmp_path):
    assert Checkpoints(tmp_path / 'nowhere').newest() is None


def test_the_last_three_are_kept_with_the_client_files_that_they_need(tmp_path):
    run(tmp_path, ROUNDS)
    assert names(tmp_path) == ['round-000005.ckpt', 'round-000006.ckpt', 'round-000007.ckpt']
    needed = {f'{client}.{version}' for number in (5, 6, 7) for client, version in checkpoints._decode(
        *safe_files.read_record(tmp_path / f'round-00000{number}.ckpt')).manifest.items()}
    assert {path.name for path in (tmp_path / 'clients').iterdir()} == needed


@pytest.mark.parametrize('in_memory', [True, False])
def test_a_checkpoint_writes_changed_clients_and_nothing_of_the_others(tmp_path, monkeypatch, in_memory):
    state, points = run(tmp_path, 4, in_memory), Checkpoints(tmp_path)
    points.newest()
    play_round(state)     # round 5: clients 0 and 1
    made, write = [], safe_files.write_record
    monkeypatch.setattr(safe_files, 'write_record', lambda file, header, arrays: made.append(
        header.get('client', 'checkpoint')) or write(file, header, arrays))
    points.save(state, IDENTITY)
    assert made == ([0, 1] if in_memory else []) + ['checkpoint'], 'files of the disk store are there already'


def test_every_damaged_byte_of_the_newest_is_noticed_and_the_one_before_is_used(tmp_path, caplog):
    run(tmp_path, 4)
    path = tmp_path / 'round-000004.ckpt'
    content = path.read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        assert Checkpoints(tmp_path).newest().round == 3
        assert (tmp_path / 'round-000004.damaged').exists() and not path.exists()
    assert caplog.text.count('round-000004.ckpt is passed over') == len(content)


@pytest.mark.parametrize('length', [0, 1, 15, 16, 100, -33, -32, -1])
def test_a_truncated_newest_is_noticed_and_the_run_comes_to_the_same_end(tmp_path, length):
    run(tmp_path, 4)
    path = tmp_path / 'round-000004.ckpt'
    path.write_bytes(path.read_bytes()[:length])
    assert_same(run(tmp_path, ROUNDS), uninterrupted(ROUNDS))


@pytest.mark.parametrize('in_memory', [True, False])
def test_a_damaged_or_missing_client_file_sends_back_to_a_checkpoint_without_it(tmp_path, in_memory):
    run(tmp_path, 4, in_memory)
    newest = max((tmp_path / 'clients').iterdir(), key=lambda path: int(path.name.split('.')[1]))
    assert newest.name.endswith('.4')
    content = newest.read_bytes()
    for position in (0, 9, 30, len(content) // 2, len(content) - 1):
        newest.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1:])
        assert Checkpoints(tmp_path).newest().round == 3
        (tmp_path / 'round-000004.damaged').rename(tmp_path / 'round-000004.ckpt')
    newest.unlink()
    assert Checkpoints(tmp_path).newest(with_clients=False).round == 4
    assert_same(run(tmp_path, ROUNDS, in_memory), uninterrupted(ROUNDS))


def test_a_damaged_older_one_does_not_hold_up_the_newest(tmp_path):
    run(tmp_path, 4)
    (tmp_path / 'round-000003.ckpt').write_bytes(b'')
    assert_same(run(tmp_path, ROUNDS), uninterrupted(ROUNDS))


def test_when_none_is_whole_the_user_decides(tmp_path):
    run(tmp_path, 4)
    for path in tmp_path.glob('round-*.ckpt'):
        path.write_bytes(b'?')
    with pytest.raises(VirtualTfError, match=r'none of the 3 checkpoints in .* is whole; --noresume .* starts'):
        Checkpoints(tmp_path).newest()
    assert len(names(tmp_path)) == 3, 'and nothing is moved'


@pytest.mark.parametrize('in_memory', [True, False])
def test_a_full_disk_leaves_the_older_checkpoint_intact(tmp_path, monkeypatch, in_memory):
    write = safe_files.write_record
    for room in range(4):     # so many more records fit
        left = [room]

        def full(file, header, arrays, left=left):
            left[0] -= 1
            if left[0] < 0:
                file.write(b'half')
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write(file, header, arrays)

        folder = tmp_path / str(room)
        run(folder, 3, in_memory)
        with monkeypatch.context() as patch, pytest.raises(OSError, match='No space left'):
            patch.setattr(safe_files, 'write_record', full)
            run(folder, ROUNDS, in_memory)
        assert not list(folder.glob('*.tmp'))
        assert 3 <= Checkpoints(folder).newest().round < ROUNDS
        assert_same(run(folder, ROUNDS, in_memory), uninterrupted(ROUNDS))


class Killed(BaseException):
    """Stands for SIGKILL: nothing that the process would still do is done."""


def kill_at(patch, count):
    """Every operation on a file system raises from number `count` on; a write is cut in half first."""
    done = [0]

    def counted(operation, cut=None):
        def run_or_die(*arguments, **options):
            done[0] += 1
            if done[0] == count and cut:
                cut(*arguments)
            if done[0] >= count:
                raise Killed
            return operation(*arguments, **options)
        return run_or_die

    def half(file, header, arrays):
        file.write(b'VTFRECRD half a record')
        file.flush()

    patch.setattr(safe_files, 'write_record', counted(safe_files.write_record, half))
    patch.setattr(os, 'fsync', counted(lambda descriptor: None))     # takes long, and no power fails here
    for owner, name in ((os, 'replace'), (pathlib.Path, 'unlink'), (pathlib.Path, 'mkdir')):
        patch.setattr(owner, name, counted(getattr(owner, name)))
    return done


@pytest.mark.parametrize('every', [1, 3])
@pytest.mark.parametrize('in_memory', [True, False])
def test_killed_before_any_operation_on_a_file_the_run_comes_to_the_same_end(tmp_path, in_memory, every):
    expected, count, survived = uninterrupted(ROUNDS), 0, False
    while not survived:
        count += 1
        folder = tmp_path / str(count)
        # And twice more while it gets up again.
        for attempt, moment in enumerate((count, 1 + count % 7, 1 + count % 11)):
            with pytest.MonkeyPatch.context() as patch:
                kill_at(patch, moment)
                try:
                    run(folder, ROUNDS, in_memory, every)
                    survived = survived or attempt == 0
                except Killed:
                    pass
        assert_same(run(folder, ROUNDS, in_memory, every), expected)
    assert count > 30, 'so many moments were tried'
