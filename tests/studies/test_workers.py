import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import types

import pytest
import stored_runs

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.methods.registry import make_settings
from virtual_tf.runs import driver
from virtual_tf.studies import processes, workers
from virtual_tf.studies.workers import Job, Place

SMALL = {'dataset': 'synthetic', 'synthetic_clients': 4, 'synthetic_max_size': 50, 'clients_per_round': 2, 'epochs': 1,
         'rounds': 3, 'compile': 'graph', 'histogram_every': 0}


def test_a_run_is_finished_by_its_summary_and_its_settings(tmp_path):
    job = Job('a', make_settings(SMALL))
    stored_runs.write(tmp_path / 'a', job.settings, [{}] * 3)
    assert job.finished(tmp_path) and not Job('b', job.settings).finished(tmp_path)
    # More rounds continue it; fewer, or another rate, is another run.
    assert not Job('a', make_settings(SMALL | {'rounds': 4})).finished(tmp_path)
    for change in ({'rounds': 2}, {'client_lr': 0.5}):
        with pytest.raises(VirtualTfError, match=next(iter(change))):
            Job('a', make_settings(SMALL | change)).finished(tmp_path)


def test_cores_are_dealt_out():
    cores = os.sched_getaffinity(0)
    shares = processes.share_cores(len(cores))
    assert set.union(*shares) == cores and all(len(share) == 1 for share in shares)
    assert all(len(share) == 1 for share in processes.share_cores(len(cores) + 1))
    assert processes.share_cores(1) == [cores]


def test_every_job_of_a_sweep_has_the_same_share_of_the_cores(monkeypatch):
    monkeypatch.setattr(workers.processors, 'cores', lambda: [0, 1, 2, 3, 4])
    job, asked = Job('a', make_settings(SMALL)), Job('b', make_settings(SMALL | {'threads': 3}))
    # 5 cores for 2 are 3 and 2: with so many threads each, a run's bits would depend on where it was played.
    assert [job.among(processes).settings.threads for processes in (1, 2, 5, 9)] == [5, 2, 1, 1]
    assert asked.among(5) == asked


def test_an_error_of_one_job_does_not_stop_the_others(tmp_path):
    good, bad = Job('good', make_settings(SMALL)), Job('bad', make_settings(SMALL | {'clients_per_round': 9}))
    errors = workers.run_local([bad, good], Place(tmp_path, 'nowhere'), 2)
    assert list(errors) == [bad] and 'clients_per_round = 9' in errors[bad]
    assert good.finished(tmp_path)


def test_jobs_one_by_one_are_played_by_what_is_given(tmp_path):
    good, bad = Job('good', make_settings(SMALL)), Job('bad', make_settings(SMALL | {'clients_per_round': 9}))
    made, seen = [], []

    def make(*parts):
        made.append(parts)
        return driver.Simulation(*parts)
    errors = workers.run_one_by_one([bad, good], Place(tmp_path, 'nowhere'), make, lambda *jobs: seen.append(
        tuple([job.name for job in of_jobs] for of_jobs in jobs)))
    assert list(errors) == [bad] and 'clients_per_round = 9' in errors[bad]
    assert good.finished(tmp_path) and len(made) == 1
    assert seen == [(['good'], ['bad'])] * 3 + [([], ['bad', 'good'])]     # after each of three rounds, and at the end


COMMAND = [sys.executable, '-m', 'scripts.sweep', '--method=fedavg,virtual', '--private=none',
           '--grid=client_lr=0.01,0.1', '--validation_fraction=0.2', '--checkpoint_every=2', '--processes=2',
           '--data_dir=nowhere',
           *(f'--{name}={value}' for name, value in SMALL.items() if name != 'rounds'), '--rounds=20']


def summaries(root):
    """What all runs have found, times aside."""
    found = {}
    for path in sorted(root.rglob('summary.json')):
        found[str(path.relative_to(root))] = {
            key: value for key, value in json.loads(path.read_text(encoding='utf-8')).items() if key != 'seconds'}
    return found


def choices(root):
    return json.loads((root / 'sweep.json').read_text(encoding='utf-8'))['groups']


@pytest.fixture(scope='module')
def uninterrupted(tmp_path_factory):
    root = tmp_path_factory.mktemp('whole')
    done = subprocess.run([*COMMAND, f'--output_dir={root}'], capture_output=True, text=True, check=True)
    assert '4 runs, 0 finished; the others take about' in done.stdout and 'all points' in done.stdout
    return root


def started_rounds(root):
    return sum(len(path.read_bytes().splitlines()) for path in root.rglob('metrics.jsonl'))


def children(pid):
    found = subprocess.run(['pgrep', '-P', str(pid)], capture_output=True, text=True).stdout.split()
    return [int(one) for one in found]


def alive(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8') as file:
            return file.read().rpartition(')')[2].split()[0] != 'Z'
    except FileNotFoundError:
        return False


def test_a_sweep_that_was_killed_ends_with_the_same_summaries(uninterrupted, tmp_path):
    process = subprocess.Popen([*COMMAND, f'--output_dir={tmp_path}'], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while started_rounds(tmp_path) < 8:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        workers = children(process.pid)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    while any(alive(pid) for pid in workers):     # they end with the sweep, else they would hold the folders
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert summaries(tmp_path) != summaries(uninterrupted)
    again = subprocess.run([*COMMAND, f'--output_dir={tmp_path}'], capture_output=True, text=True, check=True)
    assert summaries(tmp_path) == summaries(uninterrupted) and len(summaries(tmp_path)) == 4
    assert choices(tmp_path) == choices(uninterrupted)
    assert 'all points' in again.stdout
    third = subprocess.run([*COMMAND, f'--output_dir={tmp_path}'], capture_output=True, text=True, check=True)
    assert '4 runs, 4 finished' in third.stdout


def local_worker():
    return next(pid for pid in children(os.getpid())
                if 'spawn_main' in pathlib.Path(f'/proc/{pid}/cmdline').read_text(encoding='utf-8'))


def ray_worker():
    return int(subprocess.run(['pgrep', '-f', '^ray::play'], capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize('engine, worker, end', [
    (lambda jobs, place, watch: workers.run_local(jobs, place, 1, watch), local_worker, signal.SIGKILL),
    (lambda jobs, place, watch: workers.run_ray(jobs, place, None, watch, 1), ray_worker, signal.SIGKILL),
    (lambda jobs, place, watch: workers.run_ray(jobs, place, None, watch, 1), ray_worker, signal.SIGTERM)],
    ids=['local', 'ray', 'ray, SIGTERM'])
def test_a_lost_worker_is_replaced_by_one_that_continues(engine, worker, end, tmp_path):
    job, killed = Job('a', make_settings(SMALL | {'rounds': 200, 'checkpoint_every': 2})), []

    def kill_once(active, _):
        if active and not killed and job.folder(tmp_path).progress().round >= 3:
            killed.append(worker())
            os.kill(killed[0], end)
            while alive(killed[0]):
                time.sleep(0.01)
            # A mark in what is kept of round 1: a run that starts anew would not have it.
            path = tmp_path / job.name / 'metrics.jsonl'
            path.write_text(path.read_text(encoding='utf-8').replace('{', '{"mark": 7, ', 1), encoding='utf-8')

    assert engine([job], Place(tmp_path, 'nowhere'), kill_once) == {}
    assert killed and job.finished(tmp_path)
    rows = job.folder(tmp_path).history()
    assert [row['round'] for row in rows] == list(range(1, 201)) and rows[0]['mark'] == 7


def test_a_worker_stays_with_the_seeds_of_one_run_and_out_of_the_way_of_others():
    jobs = [Job(f'{rate}-{seed}', make_settings(SMALL | {'client_lr': rate, 'seed': seed}))
            for rate in (0.1, 0.2) for seed in (0, 1)]
    first, second = (types.SimpleNamespace(kind=None) for _ in range(2))
    assert workers.next_for(first, jobs, []) == jobs[0]
    first.kind = workers.kind_of(jobs[0])
    assert workers.next_for(second, jobs[1:], [first]) == jobs[2], 'what the first has not compiled'
    second.kind = workers.kind_of(jobs[2])
    assert workers.next_for(second, [jobs[1], jobs[3]], [first]) == jobs[3], 'what it has compiled'
    assert workers.next_for(second, [jobs[1]], [first]) == jobs[1], 'rather than nothing'


# `local` and `fedper` draw what their clients start from by the seed.
@pytest.mark.parametrize('method', ['virtual', 'local', 'fedper'])
def test_seeds_that_share_a_process_have_the_numbers_of_runs_of_their_own(method, tmp_path, monkeypatch):
    jobs = [Job(str(seed), make_settings(SMALL | {'method': method, 'seed': seed})) for seed in (0, 1)]
    traced = []
    build = driver.registry.build

    def counting(settings, dataset):
        network, algorithm, settings = build(settings, dataset)
        traced.append(algorithm.client_update)
        return network, algorithm, settings
    monkeypatch.setattr(driver.registry, 'build', counting)
    make = workers._CompiledOnce()
    for job in jobs:
        workers.play(job, Place(tmp_path / 'together', 'nowhere'), make=make)
    assert [update.experimental_get_tracing_count() for update in traced] == [1, 0]
    for job in jobs:
        workers.play(job, Place(tmp_path / 'alone', 'nowhere'))
    assert summaries(tmp_path / 'together') == summaries(tmp_path / 'alone')


def test_ray_gives_the_same_summaries(uninterrupted, tmp_path):
    done = subprocess.run([*COMMAND, '--engine=ray', f'--output_dir={tmp_path}'], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert summaries(tmp_path) == summaries(uninterrupted) and choices(tmp_path) == choices(uninterrupted)


def test_without_ray_the_engine_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, 'ray', None)
    with pytest.raises(VirtualTfError, match=r'install requirements-flower\.txt'):
        workers.run_ray([], Place(tmp_path, 'nowhere'))


def test_a_cluster_that_does_not_answer_is_one_sentence(tmp_path):
    with socket.socket() as unused:
        unused.bind(('127.0.0.1', 0))      # nobody listens
        address = f'127.0.0.1:{unused.getsockname()[1]}'
        with pytest.raises(VirtualTfError, match=f'ray_address = {address}'):
            workers.run_ray([], Place(tmp_path, 'nowhere'), address)


def test_a_finished_run_has_no_error_of_another_sweep_that_met_it(tmp_path):
    job = Job('a', make_settings(SMALL))
    workers.play(job, Place(tmp_path, 'nowhere'))
    (tmp_path / 'a' / workers.ERROR).write_text('in use by another run')
    assert workers.outcome(job, tmp_path) == ''
    (tmp_path / 'a' / 'summary.json').unlink()
    assert workers.outcome(job, tmp_path) == 'in use by another run'


def test_paths_for_other_processes_are_whole(monkeypatch, tmp_path):
    monkeypatch.setenv('HOME', str(tmp_path / 'home'))
    monkeypatch.chdir(tmp_path)
    place = workers._whole_paths(Place(pathlib.Path('runs'), '~/data'))
    assert place.root == tmp_path / 'runs' and place.data_dir == str(tmp_path / 'home' / 'data')
