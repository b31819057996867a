"""Many runs, played on this machine or on a Ray cluster.

A run is a Job with a folder of its own. What its folder holds decides everything: a job with a summary of the same
settings is finished, one with checkpoints continues from them. So a sweep may be killed and started again at any time.
"""
import contextlib
import logging
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import signal
import threading
from functools import partial
from typing import NamedTuple

from virtual_tf import data
from virtual_tf.core import plugins, processors, ray_cluster
from virtual_tf.core.errors import Interrupted, NothingLearntError, VirtualTfError
from virtual_tf.core.settings import Settings
from virtual_tf.methods import registry
from virtual_tf.runs import driver
from virtual_tf.runs.folder import RunFolder
from virtual_tf.runs.hooks import Hook
from virtual_tf.studies.processes import Worker, end_with_parent, share_cores

TRIES = 3                 # of a job whose process was lost
ERROR = 'error.txt'
NOTHING_LEARNT = 'nothing_learnt.txt'     # beside it, where that is what it says


class Job(NamedTuple):
    """A run to play."""
    name: str             # its folder, below the root of all
    settings: Settings

    def folder(self, root):
        return RunFolder(root / self.name)

    def finished(self, root):
        """Whether its folder has its summary; another run's is refused."""
        return self.folder(root).finished(self.settings)

    def among(self, processes):
        """The job as one of so many processes plays it: with an equal share of the cores, if it asks for all."""
        if self.settings.threads:
            return self
        return self._replace(settings=self.settings.replace(threads=max(1, len(processors.cores()) // processes)))


class Place(NamedTuple):
    """Where jobs read and write."""
    root: pathlib.Path
    data_dir: str
    plugins: tuple = ()


def play(job, place, **options):
    """Plays one job in this process. Options are driver.run's."""
    for path in place.plugins:
        plugins.load(path)
    folder = place.root / job.name
    folder.mkdir(parents=True, exist_ok=True)
    for name in (ERROR, NOTHING_LEARNT):
        (folder / name).unlink(missing_ok=True)
    try:
        driver.run(job.settings, data.load(place.data_dir, job.settings), folder, progress=False, **options)
    except Interrupted:
        return
    except VirtualTfError as error:
        (folder / ERROR).write_text(str(error), encoding='utf-8')
        if isinstance(error, NothingLearntError):
            (folder / NOTHING_LEARNT).touch()


class _CompiledOnce:
    """Makes the Simulations of jobs that differ in their seed alone: the first one's method serves all.

    A client_update takes its randomness from the cohort's keys (methods/interface.py), so what is compiled for one seed
    is right for the others. Nothing else is shared: initial states may know the seed.
    """

    def __init__(self):
        self._first = None

    def __call__(self, network, algorithm, dataset, settings):
        alike = network, settings.replace(seed=0)
        if self._first is None or self._first[0] != alike:
            self._first = alike, algorithm.client_update
        return driver.Simulation(network, algorithm._replace(client_update=self._first[1]), dataset, settings)


def _serve(place, connection, cores):
    """Plays the jobs that come through the connection, on these cores alone; answers when one has ended.

    It ends when the connection is closed; SIGTERM ends a run after a round.
    """
    if cores:
        os.sched_setaffinity(0, cores)     # before TensorFlow counts them
    end_with_parent()
    asked, make = threading.Event(), _CompiledOnce()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)     # Ctrl-C is the sweep's, which passes it on
    with contextlib.suppress(EOFError, ConnectionError):
        while not asked.is_set():
            play(connection.recv(), place, make=make, stop=asked.is_set)
            connection.send(None)


def kind_of(job):
    """What jobs have in common that one process can play with the same compiled code: all but the seed."""
    return job.settings.replace(seed=0)


def pool_of(job):
    """What TensorFlow's threads are for, which a process cannot change."""
    return registry.with_compiler(job.settings).compile, job.settings.threads


def next_for(worker, waiting, busy):
    """Of the waiting jobs one of the kind that the worker has compiled, else the first that no other works on."""
    taken = {other.kind for other in busy}
    return min(waiting, key=lambda job: (kind_of(job) != worker.kind, kind_of(job) in taken))


def run_local(jobs, place, at_a_time, watch=lambda *_: None):
    """Plays jobs, so many at a time, in processes with their share of the cores; a process plays the seeds of one run.

    watch(running jobs, ended jobs) is called every second. A job whose process is lost is tried again and continues
    from its checkpoint. Returns {job: error}. However this ends, no process stays behind.
    """
    at_a_time = max(1, min(at_a_time, len(jobs)))
    everyone = [Worker(partial(_serve, place), cores) for cores in share_cores(at_a_time)]
    free, busy = [*everyone], []
    waiting, errors, ended = [job.among(at_a_time) for job in jobs], {}, []
    asked = dict(zip(waiting, jobs))
    tries = dict.fromkeys(waiting, 0)
    try:
        while waiting or busy:
            while waiting and free:
                worker = free.pop(0)
                job = next_for(worker, waiting, busy)
                waiting.remove(job)
                tries[job] += 1
                worker.begin(job, kind_of(job), pool_of(job))
                busy.append(worker)
            multiprocessing.connection.wait([news for worker in busy for news in worker.news()], timeout=1.0)
            for worker in [*busy]:
                code = worker.ended()
                if code is None:
                    continue
                busy.remove(worker)
                free.append(worker)
                error = outcome(worker.job, place.root, code)
                if error and code and tries[worker.job] < TRIES:
                    logging.warning('%s: %s; tried again', worker.job.name, error)
                    waiting.insert(0, worker.job)
                    continue
                ended.append(asked[worker.job])
                if error:
                    errors[asked[worker.job]] = error
            watch([asked[worker.job] for worker in busy], ended)
    finally:
        for worker in everyone:
            worker.ask_to_end()
        for worker in everyone:
            worker.end()
    return errors


def outcome(job, root, exitcode=0):
    """What went wrong with a job whose process has ended; '' if it is finished."""
    if exitcode == 0 and job.finished(root):
        return ''
    if exitcode == 0 and (root / job.name / ERROR).exists():
        return (root / job.name / ERROR).read_text(encoding='utf-8')
    return f'its process ended with code {exitcode}' if exitcode else 'it was stopped before its last round'


def learnt_nothing(job, root):
    """Whether that is why a job has ended without a summary."""
    return (root / job.name / NOTHING_LEARNT).exists() and not job.folder(root).has_summary()


class _Watch(Hook):
    """Calls a function after every round."""

    def __init__(self, watch):
        self._watch = watch

    def on_round(self, metrics, simulation, state):
        self._watch()


def run_one_by_one(jobs, place, make, watch=lambda *_: None):
    """Plays jobs one after the other in this process, each by what `make` makes; returns {job: error}."""
    ended, errors = [], {}
    for job in jobs:
        play(job, place, make=make, more_hooks=[_Watch(lambda job=job: watch([job], ended))])
        ended.append(job)
        if error := outcome(job, place.root):
            errors[job] = error
    watch([], ended)
    return errors


def run_ray(jobs, place, address=None, watch=lambda *_: None, processes=None):
    """Plays jobs as tasks of a Ray cluster, whose workers see the root as the same folder; returns {job: error}.

    A lost worker's task goes to another one, which continues from the job's checkpoint.
    """
    place = _whole_paths(place)
    with ray_cluster.connected(address, processes) as ray:
        # A worker for each task: what one has set for its process is nobody else's.
        task = ray.remote(num_cpus=1, max_retries=TRIES - 1, max_calls=1)(play)
        # Ray counts a core for each task; on this machine there may be more for so few.
        share = len(processors.cores()) if address or not processes else processes
        pending, ended, errors = {task.remote(job.among(share), place): job for job in jobs}, [], {}
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
    return errors


def _whole_paths(place):
    """For processes that work in other folders."""
    return place._replace(root=place.root.resolve(), data_dir=str(pathlib.Path(place.data_dir).expanduser().resolve()))
