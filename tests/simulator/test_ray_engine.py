"""One run over workers on Ray: the numbers of the run in one process, whoever dies."""
import contextlib
import functools
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
import toys
from federations import assert_metrics_close
from run_checks import final_state, metrics
from toys import make_dataset, make_settings

from virtual_tf.core import ray_cluster
from virtual_tf.core.errors import Interrupted, RunError, VirtualTfError
from virtual_tf.data import watch
from virtual_tf.methods import registry
from virtual_tf.runs import driver
from virtual_tf.runs.folder import RunFolder
from virtual_tf.runs.hooks import Hook
from virtual_tf.simulator import ray_engine, ray_pool
from virtual_tf.simulator.checkpoints import Checkpoints

ray = pytest.importorskip('ray')

SIZES = (9, 5, 7, 12, 4, 8, 6, 10, 11, 3)
VARIANTS = [{'method': 'virtual', 'private': 'none'}, {'method': 'virtual', 'private': 'residual'},
            {'method': 'fedavg'}, {'method': 'ditto'}]
NEW = {'seconds_waiting', 'seconds_transport', 'bytes_moved'}


@pytest.fixture(autouse=True, scope='module')
def without_pictures():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver.pictures, 'learning_curves', lambda *_: None)
        patch.setattr(driver.hooks.ScorePictures, 'on_end', lambda *_: None)
        patch.setattr(driver.hooks.SnrDistributions, 'on_end', lambda *_: None)
        yield


@pytest.fixture(scope='module')
def pools(tmp_path_factory):
    """The function that gives a Pool of so many workers; more cores than the machine has are a matter of belief."""
    folder, made = tmp_path_factory.mktemp('pools'), {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(ray_cluster.connected(cores=16))

        def pool(workers, cores=1):
            if (workers, cores) not in made:
                made[workers, cores] = stack.enter_context(ray_pool.opened(folder, workers=workers, cores=cores))
            return made[workers, cores]
        yield pool


@pytest.fixture(scope='module')
def dataset():
    return make_dataset(SIZES, validation=0.2)


def settings_of(**changes):
    usual = {'rounds': 5, 'clients_per_round': 5, 'clients_per_call': 2, 'checkpoint_every': 2}
    return make_settings(**usual | changes)


def play(settings, dataset, folder, pool=None, **options):
    """The history of driver.run, in this process or by a pool."""
    if pool is not None:
        options['make'] = functools.partial(ray_engine.RaySimulation, pool=pool)
    return driver.run(settings, dataset, folder, progress=False, **options)[1]


@pytest.fixture(scope='module')
def local(tmp_path_factory, dataset):
    """The function that gives the folder of a run of these settings in one process."""
    @functools.cache
    def folder(settings):
        path = tmp_path_factory.mktemp('local')
        play(settings, dataset, path)
        return path
    return folder


def assert_close_runs(first, second):
    """Every number of two runs, to float tolerance; times, and what only Ray has, aside."""
    rows = [[{key: np.nan if value is None else value for key, value in row.items() if key not in NEW}
             for row in metrics(folder)] for folder in (first, second)]
    assert [row['round'] for row in rows[1]] == list(range(1, len(rows[0]) + 1))
    assert_metrics_close(*rows, skip=())
    states = [final_state(folder) for folder in (first, second)]
    assert states[0][0] == states[1][0] and states[0][3].keys() == states[1][3].keys()
    for a, b in zip(*(tf.nest.flatten((state[1], state[3])) for state in states)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(a).max(initial=0.0))


def assert_posterior_is_product(settings, dataset, folder):
    """posterior = Π factors over all client files of the newest checkpoint."""
    points, simulation = Checkpoints(folder / 'checkpoints'), driver.build(settings, dataset)
    state = simulation.start(points.clients_folder)
    points.restore(state, points.newest())
    toys.assert_posterior_is_product(state, len(dataset.clients), tolerance=1e-5)


@pytest.mark.parametrize('workers', [2, *(pytest.param(workers, marks=pytest.mark.slow) for workers in (1, 3))])
@pytest.mark.parametrize('variant', VARIANTS, ids=lambda variant: '-'.join(variant.values()))
def test_workers_give_the_numbers_of_one_process(variant, workers, pools, local, dataset, tmp_path):
    settings = settings_of(**variant)
    history = play(settings, dataset, tmp_path, pools(workers))
    assert_close_runs(local(settings), tmp_path)
    assert all({*row} >= NEW and row['seconds_waiting'] >= 0.0 and row['bytes_moved'] > 0 for row in history)


@pytest.mark.slow
@pytest.mark.parametrize('store', ['auto', 'disk'])
def test_workers_of_several_cores_train_groups_side_by_side(store, pools, local, dataset, tmp_path):
    settings = settings_of(private='residual', clients_per_round=9, store=store)
    play(settings, dataset, tmp_path, pools(2, cores=2))
    assert_close_runs(local(settings), tmp_path)


def test_a_method_without_a_model_of_the_server_is_tested_too(pools, local, dataset, tmp_path):
    settings = settings_of(method='fedper', rounds=2)
    play(settings, dataset, tmp_path, pools(2))
    assert_close_runs(local(settings), tmp_path)
    assert all(row['server/accuracy'] is None for row in metrics(tmp_path))


@pytest.mark.parametrize('numbers', [(2, None, 2), pytest.param((1, 3, 2), marks=pytest.mark.slow)],
                         ids=lambda numbers: str(numbers))
def test_another_number_of_workers_continues(numbers, pools, local, dataset, tmp_path):
    settings = settings_of(private='residual')
    for last, workers in zip((1, 3, 5), numbers):
        rounds = []

        def stop(rounds=rounds, last=last):
            done = RunFolder(tmp_path).progress().round
            rounds.append(done)
            return done == last < 5 and len(rounds) > 1
        pool = workers and pools(workers)
        if last < 5:
            with pytest.raises(Interrupted):
                play(settings, dataset, tmp_path, pool, stop=stop)
        else:
            play(settings, dataset, tmp_path, pool)
    assert_close_runs(local(settings), tmp_path)
    assert_posterior_is_product(settings, dataset, tmp_path)


class Killer:
    """Kills a worker of a pool, in the moments that are listed: {round: what the driver is about to do}."""

    def __init__(self, pool, moments, patch):
        self._pool, self._moments, self._pids = pool, dict(moments), {}
        self.round, self.killed = 1, []
        ask, hand_out = pool.ask, pool._hand_out

        def killing_ask(numbers, name, *arguments):
            self._kill(name)
            return ask(numbers, name, *arguments)

        def killing_hand_out(tasks, waiting, pending):
            hand_out(tasks, waiting, pending)
            if pending:
                self._kill(tasks[0].name)
        patch.setattr(pool, 'ask', killing_ask)
        patch.setattr(pool, '_hand_out', killing_hand_out)

    def _kill(self, moment):
        if self._moments.get(self.round) == moment:
            del self._moments[self.round]
            self.killed.append(moment)
            actor = next(iter(self._pool._actors.values()))
            pid = ray.get(actor.pid.remote())
            os.kill(pid, signal.SIGKILL)


class Rounds(Hook):
    def __init__(self, killer):
        self._killer = killer

    def on_round(self, metrics, simulation, state):
        self._killer.round = state.round + 1


def test_workers_may_be_killed_at_any_moment(pools, local, dataset, tmp_path, monkeypatch):
    settings, pool = settings_of(private='residual', min_precision=399.99, init_scale=0.05), pools(2)
    moments = {1: 'train', 2: 'delta', 3: 'commit', 4: 'measure', 5: 'measure_server'}
    killer = Killer(pool, moments, monkeypatch)
    play(settings, dataset, tmp_path, pool, more_hooks=[Rounds(killer)])
    assert killer.killed == list(moments.values())
    assert_close_runs(local(settings), tmp_path)
    assert_posterior_is_product(settings, dataset, tmp_path)
    assert all(row['shrunk_precisions'] > 0 for row in metrics(tmp_path)), 'what is committed depends on all deltas'


def test_workers_that_keep_dying_end_the_run(pools, monkeypatch):
    pool = ray_pool.Pool(ray, 1, 1)
    monkeypatch.setattr(pool, '_start_one', lambda: None)
    with pytest.raises(RunError, match='3 workers have died in one round, the last with: no memory; the last check'):
        for number in range(3):
            pool._actors[number] = type('Dead', (), {})()
            monkeypatch.setattr(pool, '_ray', type('Ray', (), {'kill': staticmethod(lambda actor: None)}))
            pool._lose(number, RuntimeError('no memory\nand more'))


def test_a_cluster_that_is_lost_is_one_sentence(pools):
    pool = pools(2)
    for error in (BrokenPipeError('pipe'), ray.exceptions.LocalRayletDiedError('gone')):
        with pytest.raises(RunError, match=r'the Ray cluster is lost .*; the last'), pool.connection():
            raise error


def test_an_error_in_a_worker_is_the_runs(pools, dataset, tmp_path):
    pool = pools(2)
    with pytest.raises(VirtualTfError, match=r'no file .*nowhere'):
        pool.open(dataset, settings_of(), ['nowhere.py'], str(tmp_path), 2)


def test_a_dropped_client_keeps_its_state(pools, dataset, tmp_path):
    bad = toys.make_dataset(SIZES)
    bad.train.x[bad.train.offsets[3]] = np.nan
    settings = settings_of(clients_per_round=10, rounds=2)
    rows = play(settings, bad, tmp_path / 'ray', pools(2))
    assert [row['dropped_clients'] for row in rows] == [1, 1]
    play(settings, bad, tmp_path / 'local')
    assert_close_runs(tmp_path / 'local', tmp_path / 'ray')
    assert 3 not in final_state(tmp_path / 'ray')[3]
    assert_posterior_is_product(settings, bad, tmp_path / 'ray')


def test_a_folder_that_workers_do_not_see_is_one_sentence(tmp_path):
    class Elsewhere:
        def alive(self):
            return [0, 1]

        def ask(self, numbers, name, probe):
            assert name == 'sees' and pathlib.Path(probe).exists()
            return {0: True, 1: False}
    with pytest.raises(VirtualTfError, match=r'1 of 2 workers do not see the output folder .*; give an'):
        ray_pool.check_folder(Elsewhere(), tmp_path / 'new' / 'runs')
    assert list(tmp_path.iterdir()) == [], 'nothing is left behind'


def test_bad_input_is_refused_before_a_worker_starts(pools, tmp_path):
    pools(2)
    for options, said in (({'workers': 17}, 'workers = 17 with 1 core each do not fit: the Ray cluster has 16 cores'),
                          ({'workers': 2, 'cores': 1, 'gpus': 1.0}, '2 GPUs are asked for, and of the 0'),
                          ({'address': '127.0.0.1:9'}, 'no Ray cluster answers at ray_address = 127.0.0.1:9')):
        with pytest.raises(VirtualTfError, match=said), ray_pool.opened(tmp_path, **options):
            pass
    simulation = driver.build(settings_of(), make_dataset(SIZES), functools.partial(
        ray_engine.RaySimulation, pool=pools(2)))
    with pytest.raises(VirtualTfError, match='engine=ray needs the folder of a run'):
        simulation.start()


def test_groups_are_few_and_most_are_of_one_home():
    sizes, homes = np.array([9, 5, 7, 12, 4, 8, 6, 10, 11, 3]), [0, 1] * 5
    groups = [sorted(group.tolist()) for group in ray_engine.groups_by_home(sizes, homes, 2)]
    # Home 0 has clients 8, 0, 2, 6, 4 by size, home 1 has 3, 7, 5, 1, 9; the smallest of both go together.
    assert groups == [[0, 8], [2, 6], [3, 7], [1, 5], [4, 9]]
    for per_call in (1, 3, 4, 10, 20):
        groups = ray_engine.groups_by_home(sizes, homes, per_call)
        assert sorted(np.concatenate(groups)) == list(range(10)) and len(groups) == -(-10 // per_call)


COMMAND = [sys.executable, '-m', 'scripts.run', '--dataset=watch', '--method=virtual', '--private=none', '--rounds=30',
           '--epochs=2', '--compile=graph', '--checkpoint_every=2', '--histogram_every=0', '--clients_per_round=6']


def wait_for_round(folder, number, process):
    deadline = time.monotonic() + 120
    while RunFolder(folder).progress().round < number:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


def processes_below(pid):
    """{pid: command} of all that a process has started, and those have."""
    children = subprocess.run(['pgrep', '-P', str(pid)], capture_output=True, text=True).stdout.split()
    own = {int(child): pathlib.Path(f'/proc/{child}/cmdline').read_text() for child in children}
    return own | {found: name for child in children for found, name in processes_below(child).items()}


@pytest.mark.slow
def test_a_killed_worker_and_a_killed_driver(tmp_path):
    subprocess.run([*COMMAND, f'--output_dir={tmp_path / "local"}'], check=True, capture_output=True)
    command = [*COMMAND, '--engine=ray', '--workers=2', f'--output_dir={tmp_path / "ray"}']
    folder = tmp_path / 'ray' / 'virtual' / 'seed-0'
    with open(tmp_path / 'log', 'w') as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for_round(folder, 3, process)
        below = processes_below(process.pid)
        os.kill(next(pid for pid, name in below.items() if name.startswith('ray::Worker')), signal.SIGKILL)
        wait_for_round(folder, RunFolder(folder).progress().round + 2, process)
    finally:
        below = processes_below(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(2.0)
        for pid in below:     # Ray's own helpers stay behind
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    played = RunFolder(folder).progress().round
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert played < 30 and 'continues after round' in again.stdout
    assert_close_runs(tmp_path / 'local' / 'virtual' / 'seed-0', folder)
    settings = registry.read_settings(RunFolder(folder).config()['settings'])
    assert_posterior_is_product(settings, watch.load(None, settings), folder)
