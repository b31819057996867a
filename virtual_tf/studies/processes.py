"""Processes that play one job after the other, and the cores that each of them has."""
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import threading

from virtual_tf.core import processors

KINDS = 10     # of compiled code that a process gathers before a new one takes its place


class Worker:
    """A process on its cores, which plays one job after the other."""

    def __init__(self, serve, cores):
        """serve(connection, cores): what the process does, with the jobs that come through the connection."""
        self._serve, self._cores = serve, cores
        self._process = self._connection = self._pool = self.job = self.kind = None
        self._kinds = 0

    def begin(self, job, kind, pool):
        """Sends it to the process, or to a new one if that is lost, has gathered KINDS, or has another thread pool."""
        self._kinds += kind != self.kind
        if self._process is None or not self._process.is_alive() or self._kinds > KINDS or pool != self._pool:
            self.ask_to_end()
            self.end()
            self._kinds, self._pool = 1, pool
            context = multiprocessing.get_context('spawn')
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=self._serve, args=(theirs, self._cores))
            self._process.start()
            theirs.close()
        self.job, self.kind = job, kind
        self._connection.send(job)

    def news(self):
        """What tells that its job has ended, or the process."""
        return [self._connection, self._process.sentinel]

    def ended(self):
        """The exit code of what has become of its job, 0 where the process lives on; None while it is played."""
        if self._connection.poll():
            with contextlib.suppress(EOFError, ConnectionError):
                self._connection.recv()
                return 0
        if self._process.is_alive():
            return None
        code, self._process = self._process.exitcode, None
        self._connection.close()
        return code

    def ask_to_end(self):
        """After the round that is being played."""
        if self._process is not None:
            self._connection.close()
            self._process.terminate()

    def end(self):
        """Waits for it."""
        if self._process is not None:
            self._process.join()
            self._process = None


def share_cores(processes):
    """The cores of each process: all that there are, dealt out; several processes share one if there are too few."""
    if not hasattr(os, 'sched_getaffinity'):
        return [None] * processes
    cores = processors.cores()
    return [set(cores[i::processes]) or {cores[i % len(cores)]} for i in range(processes)]


def end_with_parent():
    """Ends this process when the sweep that started it is gone: it would hold the folders that the next one needs."""
    parent = multiprocessing.parent_process()

    def watch():
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    if parent is not None:
        threading.Thread(target=watch, daemon=True).start()
