"""Groups of clients side by side: a thread for each core, each operation in one thread.

Clients share nothing, so they are what to split: the small products of a step, split over threads, wait for each other.
"""
import concurrent.futures
import contextlib
import heapq
import os

import numpy as np
import tensorflow as tf
from absl import logging

from virtual_tf.core import processors
from virtual_tf.core.client_axis import in_groups

# What a step of a call costs beside its clients, in steps of a client: 0.1 was measured for an MLP, 0.7 for an LSTM on
# one core and more on two. Groups that are too large cost less than groups that are too small.
_CALL = 1.0


# XLA splits no product over threads.
_XLA_FLAG = '--xla_cpu_multi_thread_eigen=false'


def one_thread_an_operation():
    """TensorFlow is told before its first operation; where a program has begun with it or chosen, that stays.

    Returns whether it is this module that decides.
    """
    if tf.config.threading.get_intra_op_parallelism_threads():
        return False
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    except RuntimeError:
        logging.info('TensorFlow was in use before virtual_tf was imported: operations are split over threads, and '
                     'groups of clients gain less')
        return False
    given = os.environ.get('XLA_FLAGS', '')
    if _XLA_FLAG not in given:     # a parent process may have said so
        os.environ['XLA_FLAGS'] = f'{given} {_XLA_FLAG}'.strip()
    return True


_OURS = one_thread_an_operation()


def prepare(settings):
    """Threads for the groups of a run, before TensorFlow's first operation; later it changes nothing.

    A loop that XLA has compiled hands parts of itself to TensorFlow's pool, so that groups would meet in a pool of one
    thread and wait for each other: they get a thread each, and the flag above keeps them from sharing their products.
    """
    if _OURS and settings.compile == 'xla':
        with contextlib.suppress(RuntimeError):     # TensorFlow has begun
            tf.config.threading.set_intra_op_parallelism_threads(threads_of(settings))


def threads_of(settings):
    """Groups that are worked on at a time: settings.threads, but at most the cores of this process; 0 is all cores."""
    cores = len(processors.cores())
    return min(settings.threads or cores, cores)


def map_groups(function, groups, threads):
    """[function(group), …], so many at a time, begun in the order given; after an error no further one is begun."""
    if threads == 1 or len(groups) == 1:
        return [function(group) for group in groups]
    pool = concurrent.futures.ThreadPoolExecutor(min(threads, len(groups)))
    try:
        return list(pool.map(function, groups))
    finally:
        pool.shutdown(cancel_futures=True)


def group_size(sizes, count, threads, most=0):
    """Clients of a call, at most `most` (0: all), with which a round of `count` of these clients takes least.

    All calls of a run have one shape, so it is the same for every round: the best for a typical one. Small groups
    balance better and let short clients wait less for long ones; large ones make fewer calls.
    """
    typical = np.quantile(sizes, (np.arange(count) + 0.5) / count)
    largest = min(most or count, -(-count // threads))
    return min(range(largest, 0, -1), key=lambda size: _seconds(typical, size, threads))


def _seconds(sizes, per_call, threads):
    """How long the threads take, in steps of a client: each begins with the longest group that nobody has begun."""
    ends = [0.0] * threads
    for rows in in_groups(sizes, per_call):
        # A compiled loop runs as long as its largest client.
        heapq.heapreplace(ends, ends[0] + (len(rows) + _CALL) * sizes[rows].max())
    return max(ends)
