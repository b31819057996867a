"""Runs that end before their time and are continued, inside this process; test_resume_driver.py kills processes."""
import errno
import os

import numpy as np
import pytest
import tensorflow as tf
from run_checks import TIMES, assert_one_curve, assert_same_run, final_state, metrics
from toys import make_dataset, make_settings

from virtual_tf.core import processors, safe_files
from virtual_tf.core.errors import Interrupted, RunError, VirtualTfError
from virtual_tf.runs import driver
from virtual_tf.runs.folder import RunFolder

ROUNDS = 6


def settings_of(**changes):
    return make_settings(**({'rounds': ROUNDS, 'checkpoint_every': 2, 'histogram_every': 3} | changes))


@pytest.fixture(autouse=True, scope='module')
def without_pictures():
    """They take longer than all the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver.pictures, 'learning_curves', lambda *_: None)
        patch.setattr(driver.hooks.SnrDistributions, 'on_end', lambda *_: None)
        yield


def run(folder, stop_after=None, dataset=None, resume=True, **changes):
    asked = [0]

    def stop():
        asked[0] += 1     # once before the first round, then after each
        return asked[0] - 1 == stop_after
    return driver.run(settings_of(**changes), dataset or make_dataset(), folder, False, resume, stop)


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    """The folder of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp('whole') / 'virtual'
    run(folder)
    return folder


@pytest.mark.parametrize('kind', ['memory', 'disk'])
@pytest.mark.parametrize('stop_after', [1, 4])
def test_a_run_that_was_stopped_goes_on_to_the_same_numbers(whole, tmp_path, stop_after, kind):
    with pytest.raises(Interrupted, match=f'stopped after round {stop_after} of {ROUNDS}; the same command continues'):
        run(tmp_path, stop_after=stop_after, store=kind)
    assert len(metrics(tmp_path)) == stop_after and not (tmp_path / 'summary.json').exists()
    summary, history = run(tmp_path, store=kind)
    assert [row['round'] for row in history] == list(range(1, ROUNDS + 1)) and summary['rounds'] == ROUNDS
    assert_same_run(whole, tmp_path)
    points = assert_one_curve(tmp_path, ROUNDS)
    assert ('server_shared/dense_1/kernel/mean', 3) in points, 'histograms of the first part are still there'


def test_what_was_logged_after_the_checkpoint_is_played_and_logged_again_once(whole, tmp_path, caplog):
    with pytest.raises(Interrupted):
        run(tmp_path, stop_after=5)
    # As if it had been killed in the middle of a line, and the newest checkpoint lost its end.
    with open(tmp_path / 'metrics.jsonl', 'a') as file:
        file.write('{"round": 6, "server/acc')
    path = tmp_path / 'checkpoints' / 'round-000005.ckpt'
    path.write_bytes(path.read_bytes()[:1000])
    run(tmp_path)
    assert 'round-000005.ckpt is passed over' in caplog.text
    assert_same_run(whole, tmp_path)
    assert_one_curve(tmp_path, ROUNDS)


def test_lost_events_are_filled_in_from_the_metrics(tmp_path):
    with pytest.raises(Interrupted):
        run(tmp_path, stop_after=3)
    for path in tmp_path.glob('events.out.tfevents.*'):
        path.unlink()
    run(tmp_path)
    assert_one_curve(tmp_path, ROUNDS)


def test_a_finished_run_is_not_played_again(tmp_path, monkeypatch):
    first = run(tmp_path)
    contents = {path: path.read_bytes() for path in tmp_path.rglob('*') if path.is_file()}
    monkeypatch.setattr(driver.Simulation, 'play_round', None)
    assert run(tmp_path) == first
    assert contents == {path: path.read_bytes() for path in tmp_path.rglob('*') if path.is_file()}
    assert RunFolder(tmp_path).rounds_to_continue(settings_of()) == ROUNDS


def test_a_run_that_ended_before_its_summary_gets_one(whole, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(driver.pictures, 'learning_curves', lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        run(tmp_path)
    assert not (tmp_path / 'summary.json').exists()
    run(tmp_path)
    assert (tmp_path / 'summary.json').exists()
    assert_same_run(whole, tmp_path)
    assert_one_curve(tmp_path, ROUNDS)


def test_more_rounds_may_be_asked_for_and_fewer_may_not(whole, tmp_path):
    run(tmp_path, rounds=3)
    run(tmp_path)
    assert_same_run(whole, tmp_path)
    assert_one_curve(tmp_path, ROUNDS)
    with pytest.raises(VirtualTfError, match=f'rounds = 3, but the run in .* has played {ROUNDS} already'):
        run(tmp_path, rounds=3)


def test_a_changed_setting_is_refused_by_name_and_changes_nothing(tmp_path):
    run(tmp_path, rounds=2)
    before = (tmp_path / 'metrics.jsonl').read_bytes()
    with pytest.raises(VirtualTfError, match=r'other settings: epochs = 3 \(there: 2\), client_lr = 0.2 \(there: 0.1\)'
                       r'; --noresume .* replaces that run, another output_dir keeps both'):
        run(tmp_path, rounds=2, client_lr=0.2, epochs=3)
    with pytest.raises(VirtualTfError, match='seed = 1'):
        RunFolder(tmp_path).rounds_to_continue(settings_of(seed=1))
    with pytest.raises(VirtualTfError, match='holds a run with other data under the name watch'):
        run(tmp_path, rounds=2, dataset=make_dataset(seed=1))
    assert (tmp_path / 'metrics.jsonl').read_bytes() == before
    # What cannot change the rounds that were played may differ.
    free = {'checkpoint_every': 7, 'store': 'disk', 'histogram_every': 0, 'clients_per_call': 1, 'preset': 'paper',
            'threads': 3}
    driver.run(settings_of(rounds=2).replace(**free), make_dataset(), tmp_path, progress=False)


def test_noresume_replaces_the_run(tmp_path):
    run(tmp_path, rounds=3)
    assert RunFolder(tmp_path).rounds_to_continue(settings_of(seed=1), resume=False) == 0
    run(tmp_path, rounds=2, seed=1, resume=False)
    assert len(metrics(tmp_path)) == 2 and final_state(tmp_path)[0] == 2
    assert_one_curve(tmp_path, 2)


def test_without_checkpoints_nothing_is_kept_and_the_next_start_is_from_the_beginning(tmp_path):
    with pytest.raises(Interrupted, match='nothing to continue from, checkpoint_every = 0'):
        run(tmp_path, stop_after=2, checkpoint_every=0)
    assert not list(tmp_path.rglob('*.ckpt'))
    run(tmp_path, rounds=1, checkpoint_every=0)
    assert len(metrics(tmp_path)) == 1


@pytest.mark.parametrize('kind', ['memory', 'disk'])
def test_a_full_disk_ends_the_run_with_one_sentence_and_it_can_go_on(whole, tmp_path, monkeypatch, kind):
    written, write = [0], safe_files.write_record

    def full(file, header, arrays):
        written[0] += 1
        if written[0] > 10:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, header, arrays)

    with monkeypatch.context() as patch, pytest.raises(RunError, match=r'failed \(No space left on device\); the last'):
        patch.setattr(safe_files, 'write_record', full)
        run(tmp_path, store=kind)
    run(tmp_path, store=kind)
    assert_same_run(whole, tmp_path)


def test_a_folder_in_use_is_refused(tmp_path):
    with safe_files.locked(tmp_path), pytest.raises(VirtualTfError, match='in use by another run'):
        run(tmp_path)


@pytest.mark.parametrize('error', [MemoryError(), tf.errors.ResourceExhaustedError(None, None, 'OOM when allocating')])
@pytest.mark.parametrize('threads, remedy', [(1, 'clients_per_call=2 or less'), (2, 'clients_per_call=1 or less'),
                                             (4, 'threads=1')])
def test_clients_that_do_not_fit_into_memory_name_the_way_out(monkeypatch, error, threads, remedy):
    monkeypatch.setattr(processors, 'cores', lambda: [*range(4)])     # for so many threads
    simulation = driver.build(settings_of(clients_per_round=4, threads=threads), make_dataset((9, 9, 9, 9)))

    def client_update(*_):
        raise error
    simulation.algorithm = simulation.algorithm._replace(client_update=client_update)
    for _ in range(2):   # in the training, and then already in bringing the data together
        with pytest.raises(RunError, match=rf'round 1: 4 clients at once do not fit .* with --{remedy}$'):
            simulation.play_round(simulation.start())
        object.__setattr__(simulation.dataset, 'cohort', client_update)


@pytest.mark.parametrize('method', ['virtual', 'fedavg'])
def test_smaller_groups_of_clients_give_the_same_run(method):
    dataset, runs = make_dataset((9, 5, 7, 12, 4)), []
    for per_call in (0, 2):
        simulation = driver.build(settings_of(
            method=method, clients_per_round=5, clients_per_call=per_call, rounds=2), dataset)
        state = simulation.start()
        history = list(simulation.run(state))
        runs.append((state.server, state.clients.read(range(5)), history, state.scores['mt'].sums))
        assert simulation.algorithm.client_update.experimental_get_tracing_count() == 1
    for a, b in zip(*(tf.nest.flatten(values[:2]) for values in runs)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(a).max())
    for first, second in zip(runs[0][2], runs[1][2]):
        assert first.keys() == second.keys()
        for key in first.keys() - set(TIMES):
            np.testing.assert_allclose(first[key], second[key], rtol=1e-4)
