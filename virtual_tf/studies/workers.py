"""Many runs: which are finished, playing the rest on this machine or on a Ray cluster, and the best of a grid.

A run is a Job with a folder of its own. What its folder holds decides everything: a job with a summary of the same
settings is finished, one with checkpoints continues from them. So a sweep may be killed and started again at any time.
"""
import importlib
import json
import logging
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import signal
import socket
import threading
import time
from typing import NamedTuple

import numpy as np

from virtual_tf import data
from virtual_tf.core.errors import Interrupted, RunError, VirtualTfError
from virtual_tf.core.settings import Settings
from virtual_tf.networks import models
from virtual_tf.runs import driver

TRIES = 3                 # of a job whose process was lost
ERROR = 'error.txt'


class Job(NamedTuple):
    name: str             # its folder, below the root of all
    settings: Settings


class Place(NamedTuple):
    """Where jobs read and write."""
    root: pathlib.Path
    data_dir: str
    plugins: tuple = ()


class Progress(NamedTuple):
    """How far a job is."""
    round: int
    metrics: dict         # of its last round; {} before the first


def finished(job, root):
    """Whether the folder has this job's summary; another run's is refused."""
    folder = root / job.name
    if not (folder / 'summary.json').exists():
        return False
    stored = read_json(folder / 'config.json')['settings']
    driver.check_same(job.settings.differences(stored) | (
        {'rounds': (stored['rounds'], job.settings.rounds)} if stored['rounds'] > job.settings.rounds else {}), folder)
    return stored['rounds'] == job.settings.rounds


def progress(job, root):
    """The Progress that metrics.jsonl shows; a line that is being written does not count."""
    path = root / job.name / 'metrics.jsonl'
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    lines = [line for line in lines if line.endswith(b'\n')]
    return Progress(len(lines), json.loads(lines[-1]) if lines else {})


def history(job, root):
    """The metrics of all rounds of a finished job."""
    with open(root / job.name / 'metrics.jsonl', encoding='utf-8') as file:
        return [json.loads(line) for line in file]


def summary(job, root):
    return read_json(root / job.name / 'summary.json')


def read_json(path):
    return json.loads(path.read_text(encoding='utf-8'))


def play(job, place, cores=None):
    """Plays one job in this process, on these cores alone; SIGTERM ends it after a round."""
    if cores:
        os.sched_setaffinity(0, cores)     # before TensorFlow counts them
    _end_with_parent()
    asked = []
    if multiprocessing.parent_process() is not None:     # under Ray signals are Ray's
        signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
        signal.signal(signal.SIGINT, signal.SIG_IGN)     # Ctrl-C is the sweep's, which passes it on
    for path in place.plugins:
        models.load_plugin(path)
    folder = place.root / job.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ERROR).unlink(missing_ok=True)
    try:
        driver.run(job.settings, data.load(place.data_dir, job.settings), folder, progress=False,
                    stop=lambda: bool(asked))
    except Interrupted:
        return
    except VirtualTfError as error:
        (folder / ERROR).write_text(str(error), encoding='utf-8')


def _end_with_parent():
    """Ends this process when the sweep that started it is gone: it would hold the folders that the next one needs."""
    parent = multiprocessing.parent_process()

    def watch():
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    if parent is not None:
        threading.Thread(target=watch, daemon=True).start()


def run_local(jobs, place, processes, watch=lambda *_: None):
    """Plays jobs, so many at a time, each in a process of its own with its share of the cores.

    watch(running jobs, ended jobs) is called every second. A job whose process is lost is tried again and continues
    from its checkpoint. Returns {job: error}. However this ends, no process stays behind.
    """
    slots = _share_cores(max(1, min(processes, len(jobs))))
    waiting, active, errors, ended = list(jobs), {}, {}, []
    tries = dict.fromkeys(jobs, 0)
    context = multiprocessing.get_context('spawn')
    try:
        while waiting or active:
            while waiting and slots:
                job, cores = waiting.pop(0), slots.pop(0)
                tries[job] += 1
                process = context.Process(target=play, args=(job, place, cores))
                process.start()
                active[process.sentinel] = job, process, cores
            for sentinel in multiprocessing.connection.wait(list(active), timeout=1.0):
                job, process, cores = active.pop(sentinel)
                process.join()
                slots.append(cores)
                error = outcome(job, place.root, process.exitcode)
                if error and process.exitcode and tries[job] < TRIES:
                    logging.warning('%s: %s; tried again', job.name, error)
                    waiting.insert(0, job)
                    continue
                ended.append(job)
                if error:
                    errors[job] = error
            watch([job for job, *_ in active.values()], ended)
    finally:
        for _, process, _ in active.values():
            process.terminate()
        for _, process, _ in active.values():
            process.join()
    return errors


def _share_cores(processes):
    """The cores of each process: all that there are, dealt out; several processes share one if there are too few."""
    if not hasattr(os, 'sched_getaffinity'):
        return [None] * processes
    cores = sorted(os.sched_getaffinity(0))
    return [set(cores[i::processes]) or {cores[i % len(cores)]} for i in range(processes)]


def outcome(job, root, exitcode=0):
    """What went wrong with a job whose process has ended; '' if it is finished."""
    if exitcode == 0 and finished(job, root):
        return ''
    if exitcode == 0 and (root / job.name / ERROR).exists():
        return (root / job.name / ERROR).read_text(encoding='utf-8')
    return f'its process ended with code {exitcode}' if exitcode else 'it was stopped before its last round'


def run_ray(jobs, place, address=None, watch=lambda *_: None, processes=None):
    """Plays jobs as tasks of a Ray cluster, whose workers see the root as the same folder; returns {job: error}.

    A lost worker's task goes to another one, which continues from the job's checkpoint.
    """
    try:
        ray = importlib.import_module('ray')
    except ImportError:
        raise VirtualTfError("engine=ray needs Ray: pip install 'virtual-tf[flower]'") from None
    os.environ.setdefault('RAY_USAGE_STATS_ENABLED', '0')
    os.environ.setdefault('RAY_worker_niceness', '0')     # the runs are what the machine is for
    os.environ.setdefault('RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO', '0')     # else it warns of what is to come
    if address:
        _check_reachable(address)
    ray.init(address=address, num_cpus=None if address else processes, include_dashboard=False,
             log_to_driver=False, configure_logging=False)
    try:
        # A worker for each task: what one has set for its process is nobody else's.
        task = ray.remote(num_cpus=1, max_retries=TRIES - 1, max_calls=1)(play)
        place = _whole_paths(place)
        pending, ended, errors = {task.remote(job, place): job for job in jobs}, [], {}
        while pending:
            done, _ = ray.wait(list(pending), timeout=1.0)
            for reference in done:
                job = pending.pop(reference)
                ended.append(job)
                try:
                    ray.get(reference)
                    error = outcome(job, place.root)
                except ray.exceptions.RayError as problem:
                    error = f'its worker failed: {str(problem).splitlines()[-1]}'
                if error:
                    errors[job] = error
            watch(list(pending.values()), ended)
    finally:
        ray.shutdown()
    return errors


def _check_reachable(address):
    """Refuses HOST:PORT where nobody listens; Ray itself would try for minutes."""
    host, _, port = address.removeprefix('ray://').rpartition(':')
    try:
        if host:     # else a word such as auto
            socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError) as error:
        raise VirtualTfError(f'no Ray cluster answers at ray_address = {address} ({error}); ray start --head prints '
                             'the address of the one that it starts') from None


def _whole_paths(place):
    """For processes that work in other folders."""
    return place._replace(root=place.root.resolve(), data_dir=str(pathlib.Path(place.data_dir).expanduser().resolve()))


def score(job, root, select):
    """What a grid's points are compared by: accuracies of S and MT in equal parts, in percent.

    `val`: on held-out training data, mean of the last 5 rounds. `test_max`: the best rounds on test data, as in the
    paper.
    """
    if select == 'test_max':
        best = summary(job, root)['max']
        return 50.0 * (best['server/accuracy'] + best['mt/accuracy'])
    rows = history(job, root)[-5:]
    if 'val_server/accuracy' not in rows[-1]:
        raise VirtualTfError(f'{root / job.name} has no validation data to choose by; run it with '
                             '--validation_fraction=0.2, or use --select=test_max')
    return 50.0 * float(np.mean([row['val_server/accuracy'] + row['val_mt/accuracy'] for row in rows]))


def best_point(scores):
    """(the best point, axes at whose edge it lies) of {((setting, value), …): score}; what is not finite loses."""
    usable = {point: value for point, value in scores.items() if np.isfinite(value)}
    if not usable:
        raise RunError('no point of the grid gave a finite score; try smaller learning rates')
    best = max(usable, key=usable.get)
    edges = []
    for i, (name, value) in enumerate(best):
        values = {point[i][1] for point in scores}
        numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)
        if numbers and len(values) > 1 and value in (min(values), max(values)):
            edges.append(name)
    return best, edges


def mean_scores(points, seeds, root, select):
    """{point: mean over seeds} of {point: {seed: Job}}"""
    return {point: float(np.mean([score(jobs[seed], root, select) for seed in seeds]))
            for point, jobs in points.items()}


def remaining(costs, done_costs, started):
    """Seconds that are left, from what the done part took."""
    elapsed, done, total = time.monotonic() - started, sum(done_costs), sum(costs)
    return elapsed * (total - done) / done if done > 0 else float('nan')
