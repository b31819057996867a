"""The workers of a run over many machines, as its driver sees them: who is there, who does what, who has died.

A worker that dies is replaced by one with another number, so whatever a number has done and not written is known to be
gone with it. The others go on meanwhile.
"""
import contextlib
import itertools
import pathlib
import time
import uuid
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from virtual_tf.core import processors, ray_cluster
from virtual_tf.core.errors import RunError, VirtualTfError
from virtual_tf.simulator.ray_worker import Worker

_START = 300.0       # seconds in which a worker that Ray has room for is there
_DEATHS = 3          # of each worker in one round, after which it is no accident


class Task(NamedTuple):
    """A piece of work that anybody can do."""
    name: str             # method of Worker
    arguments: tuple
    cost: float           # the longest are begun first
    home: Any = None      # number of the worker that has what it needs


class Done(NamedTuple):
    worker: int
    found: Any


@contextlib.contextmanager
def opened(folder, address=None, workers=0, cores=0, gpus=0.0):
    """A Pool of so many workers, with so many cores each, that see the folder; 0 is as many as the cluster has."""
    with ray_cluster.connected(address, len(processors.cores())) as ray:
        workers, cores = ray_cluster.shares(ray_cluster.cores_of_machines(ray), workers, cores)
        ray_cluster.check_free(ray, 'CPU', workers * cores)
        if gpus:
            ray_cluster.check_free(ray, 'GPU', workers * gpus)
        pool = Pool(ray, workers, cores, gpus)
        try:
            pool.start()
            check_folder(pool, pathlib.Path(folder))
            yield pool
        finally:
            pool.close()


def check_folder(pool, folder):
    """Refuses a folder that is another one for a worker, or none; leaves nothing behind."""
    folder = folder.expanduser().resolve()
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    probe = folder / f'.seen-by-workers-{uuid.uuid4().hex}'
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        seen = pool.ask(pool.alive(), 'sees', str(probe))
        probe.unlink()
    except OSError as error:
        raise VirtualTfError(f'output folder {folder} cannot be written ({error.strerror}); choose another output_dir'
                             ) from None
    finally:
        with contextlib.suppress(OSError):     # somebody uses it by now
            for parent in missing:
                parent.rmdir()
    blind = [number for number, found in seen.items() if not found]
    if blind:
        raise VirtualTfError(f'{len(blind)} of {len(seen)} workers do not see the output folder {folder}, or cannot '
                             'write there; give an output_dir that all machines share under one path')


class Pool:
    """Workers by number; `waited`, `moved` and `fetched` are what a round has cost so far."""

    def __init__(self, ray, workers, cores, gpus=0.0):
        self._ray, self.workers, self.cores = ray, workers, cores
        self._actor = ray.remote(num_cpus=cores, num_gpus=gpus, max_concurrency=cores)(Worker)
        self._numbers = itertools.count()
        self._actors = {}         # number → actor, of those that are there
        self._coming = {}         # reference to the first answer → (number, actor, run that it was opened for)
        self._opening = None      # what a worker needs for the run
        self.begin_round()

    def start(self):
        for _ in range(self.workers):
            self._start_one()
        deadline = time.monotonic() + _START
        while self._coming and time.monotonic() < deadline:
            self._admit(timeout=1.0)
        if self._coming:
            raise VirtualTfError(f'{len(self._coming)} of {self.workers} workers have not started in {_START:.0f} s; '
                                 'others may hold the cores of the Ray cluster: ray status tells')

    @contextlib.contextmanager
    def connection(self):
        """What Ray says when the driver's own machine has lost the cluster is the end of the run, in one sentence."""
        try:
            yield
        except (ConnectionError, self._ray.exceptions.RayError) as error:
            raise RunError(f'the Ray cluster is lost ({_reason(error)}); the last checkpoint is intact: the same '
                           'command continues from there once there is a cluster again') from error

    def begin_round(self):
        """Counts from nothing: seconds of a core without work, bytes moved, seconds of moving, deaths."""
        self.waited, self.moved, self.fetched, self._deaths = 0.0, 0, 0.0, 0

    def alive(self):
        """Numbers of the workers that are there, as far as is known."""
        return list(self._actors)

    @property
    def slots(self):
        """Groups that can be worked on at a time when all are there."""
        return self.workers * self.cores

    def put(self, value):
        """A reference to a value for all, in a list, so that nobody fetches it who has it."""
        started = time.perf_counter()
        reference = [self._ray.put(value)]
        self.fetched += time.perf_counter() - started
        return reference

    def open(self, dataset, *others):
        """Makes all workers ready for a run."""
        self._opening = (self._ray.put(dataset), *others)
        self._call({number: ('open', *self._opening) for number in self.alive()}, wrapped=False)

    def ask(self, numbers, name, *arguments):
        """{number: answer} of these workers; those that are or have died are not in it."""
        started = time.perf_counter()
        answers = self._call({number: (name, *arguments) for number in numbers if number in self._actors})
        slowest = max((seconds for seconds, _ in answers.values()), default=0.0)
        self.fetched += time.perf_counter() - started - slowest
        return {number: found for number, (_, found) in answers.items()}

    def _call(self, calls, wrapped=True):
        """{number: answer} of {number: (method, *arguments)}; with the seconds that it took, if wrapped."""
        references = {}
        for number, (name, *arguments) in calls.items():
            actor = self._actors[number]
            references[number] = (actor.do.remote(name, *arguments) if wrapped
                                  else getattr(actor, name).remote(*arguments))
        answers = {}
        for number, reference in references.items():
            with self._losing(number):
                answers[number] = self._ray.get(reference)
                self.moved += size_of(answers[number])
        return answers

    def run(self, tasks):
        """[Done, …] of these tasks, by whoever is free: first what is at home there, then what waits longest for it.

        What a worker had begun when it died is begun again elsewhere; what it had done counts, here.
        """
        started, busy = time.perf_counter(), 0.0
        waiting = sorted(range(len(tasks)), key=lambda i: -tasks[i].cost)
        pending, done = {}, {}      # reference → (index, number); index → Done
        while waiting or pending:
            self._hand_out(tasks, waiting, pending)
            ready, _ = self._ray.wait(list(pending), timeout=1.0) if pending else ([], [])
            for reference in ready:
                index, number = pending.pop(reference)
                with self._losing(number):
                    seconds, found = self._ray.get(reference)
                    busy += seconds
                    self.moved += size_of(found)
                    done[index] = Done(number, found)
                if index not in done:
                    waiting.insert(0, index)
            self._admit(timeout=0.0)
            if not self._actors:
                self._wait_for_one()
        self.waited += time.perf_counter() - started - busy / self.slots
        return [done[i] for i in range(len(tasks))]

    def _hand_out(self, tasks, waiting, pending):
        """Gives waiting tasks to free cores of workers."""
        free = dict.fromkeys(self._actors, self.cores)
        for _, number in pending.values():
            if number in free:
                free[number] -= 1
        for stealing in (False, True):
            for number in itertools.chain.from_iterable([number] * count for number, count in [*free.items()]):
                index = next((i for i in waiting if stealing or tasks[i].home == number), None)
                if index is None:
                    continue
                waiting.remove(index)
                free[number] -= 1
                reference = self._actors[number].do.remote(tasks[index].name, *tasks[index].arguments)
                pending[reference] = index, number

    @contextlib.contextmanager
    def _losing(self, number):
        """A worker that cannot be reached is given up; an error of its own is the run's."""
        try:
            yield
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except self._ray.exceptions.RayError as error:
            self._lose(number, error)

    def _lose(self, number, error):
        if number not in self._actors:     # known
            return
        said = _reason(error)
        logging.warning('worker %d is lost (%s); others take over its clients', number, said)
        with contextlib.suppress(ValueError):     # it is dead, or about to be: nothing of it may come any more
            self._ray.kill(self._actors[number])
        del self._actors[number]
        self._deaths += 1
        if self._deaths >= _DEATHS * self.workers:
            raise RunError(f'{self._deaths} workers have died in one round, the last with: {said}; the last checkpoint '
                           'is intact. If they lack memory, use a smaller --clients_per_call or fewer --workers')
        self._start_one()

    def _start_one(self):
        self._expect(next(self._numbers), self._actor.remote(self.cores))

    def _expect(self, number, actor):
        reference = actor.open.remote(*self._opening) if self._opening else actor.pid.remote()
        self._coming[reference] = number, actor, self._opening

    def _admit(self, timeout):
        """Takes in the workers that are ready."""
        if not self._coming:
            return
        ready, _ = self._ray.wait(list(self._coming), num_returns=len(self._coming), timeout=timeout)
        for reference in ready:
            number, actor, opening = self._coming.pop(reference)
            if opening is not self._opening:     # another run has begun meanwhile
                self._expect(number, actor)
                continue
            self._actors[number] = actor
            with self._losing(number):
                self._ray.get(reference)

    def _wait_for_one(self):
        deadline = time.monotonic() + _START
        while not self._actors:
            if time.monotonic() > deadline:
                raise RunError(f'no worker is left, and none has started in {_START:.0f} s; the last checkpoint is '
                               'intact: the same command continues from there')
            self._admit(timeout=1.0)

    def close(self):
        for actor in (*self._actors.values(), *(actor for _, actor, _ in self._coming.values())):
            self._ray.kill(actor)
        self._actors, self._coming = {}, {}


def _reason(error):
    """One line of what Ray has to say; of a worker that could not be made the last one, which is the error itself."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1 if 'creation task' in lines[0] else 0].strip()


def size_of(value):
    """Bytes of the arrays in an answer."""
    if isinstance(value, dict):
        return sum(map(size_of, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(size_of, value))
    return value.nbytes if isinstance(value, np.ndarray | np.generic) else 8 if isinstance(value, int | float) else 0
