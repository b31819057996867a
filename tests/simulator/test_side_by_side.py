"""Groups of clients on threads of their own: the numbers of one thread, one trace, errors and stops as before."""
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf
from run_checks import assert_same_run
from toys import assert_nests_close, make_dataset, make_settings, play

from virtual_tf.core import processors
from virtual_tf.core.errors import Interrupted
from virtual_tf.runs import driver
from virtual_tf.simulator import side_by_side

SIZES = (9, 5, 7, 12, 4, 8, 6, 10, 11, 3)
THREADS = (1, 2, 3, 10)


@pytest.fixture(scope='module')
def runs():
    """{threads: (simulation, state, history)} of the same rounds."""
    dataset = make_dataset(SIZES, validation=0.2)
    settings = make_settings(clients_per_round=10, rounds=2, epochs=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processors, 'cores', lambda: [*range(10)])     # for so many threads
        return {threads: play(settings.replace(threads=threads), dataset) for threads in THREADS}


@pytest.mark.parametrize('threads', THREADS[1:])
def test_the_number_of_threads_changes_no_clients_numbers(runs, threads):
    (_, one, first), (_, several, others) = runs[1], runs[threads]
    for a, b in ((one.server, several.server), *((state.read(range(10)) for state in (one.clients, several.clients)),)):
        for x, y in zip(tf.nest.flatten(a), tf.nest.flatten(b)):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4 * np.abs(x).max())
    assert_nests_close(one.scores['val_mt'].sums, several.scores['val_mt'].sums, rtol=1e-4)
    for row, other in zip(first, others):
        for key in row.keys() - {'seconds', 'seconds_evaluation'}:
            np.testing.assert_allclose(row[key], other[key], rtol=1e-4)


@pytest.mark.parametrize('threads', THREADS)
def test_all_groups_share_one_trace(runs, threads):
    simulation, _, _ = runs[threads]
    assert simulation.algorithm.client_update.experimental_get_tracing_count() == 1
    evaluator = simulation._evaluators['val_']
    assert evaluator._clients.experimental_get_tracing_count() == 1
    assert evaluator._server.experimental_get_tracing_count() == 1


@pytest.mark.parametrize('method, compiler', [('virtual', 'graph'), ('fedavg', 'xla')])
def test_the_same_threads_give_the_same_bits_after_a_stop_too(tmp_path, monkeypatch, method, compiler):
    monkeypatch.setattr(driver.pictures, 'learning_curves', lambda *_: None)
    monkeypatch.setattr(driver.hooks.SnrDistributions, 'on_end', lambda *_: None)
    settings = make_settings(method=method, compile=compiler, threads=3, clients_per_round=5, rounds=2,
                             checkpoint_every=1, store='disk')
    dataset, asked = make_dataset(SIZES), []
    driver.run(settings, dataset, tmp_path / 'whole', progress=False)
    with pytest.raises(Interrupted):
        driver.run(settings, dataset, tmp_path / 'stopped', progress=False,
                   stop=lambda: asked.append(1) or len(asked) == 2)
    driver.run(settings, dataset, tmp_path / 'stopped', progress=False)
    assert_same_run(tmp_path / 'whole', tmp_path / 'stopped')


def test_groups_really_run_at_the_same_time_and_one_thread_is_the_callers():
    meeting = threading.Barrier(3, timeout=10)
    assert side_by_side.map_groups(lambda i: (meeting.wait(), i)[1], [2, 0, 1], 3) == [2, 0, 1]
    assert side_by_side.map_groups(lambda _: threading.get_ident(), [0, 1], 1) == [threading.get_ident()] * 2


@pytest.mark.parametrize('threads', [1, 2])
def test_after_an_error_no_further_group_is_begun(threads):
    begun = []

    def fail(i):
        begun.append(i)
        raise MemoryError
    with pytest.raises(MemoryError):
        side_by_side.map_groups(fail, range(100), threads)
    assert len(begun) < 100


@pytest.mark.parametrize('count, threads, most, expected', [
    (10, 1, 0, 10), (10, 2, 0, 5), (10, 10, 0, 1), (10, 64, 0, 1), (1, 2, 0, 1),
    (10, 2, 3, 3),       # two calls a thread; groups of 2 would make three, and nobody wait less
    (10, 2, 2, 2),
    (10, 3, 0, 4)])      # someone has to take 4
def test_clients_of_one_size_are_dealt_out_evenly(count, threads, most, expected):
    assert side_by_side.group_size(np.full(50, 7), count, threads, most) == expected


def test_clients_of_very_different_size_go_in_small_groups():
    # One of 100 and nine of 1: alone, the long one takes 100 steps; among five, all wait for it, 500.
    sizes = np.array([1] * 9 + [100])
    assert side_by_side.group_size(sizes, 10, 2) == 1
    assert side_by_side._seconds(sizes, 1, 2) == pytest.approx(100 * (1 + side_by_side._CALL))
    assert side_by_side._seconds(sizes, 5, 2) == pytest.approx(100 * (5 + side_by_side._CALL))


def test_zero_threads_are_the_cores_of_the_process(monkeypatch):
    monkeypatch.setattr(processors, 'cores', lambda: [3, 5, 7])
    assert side_by_side.threads_of(make_settings()) == 3
    assert side_by_side.threads_of(make_settings(threads=2)) == 2
    assert side_by_side.threads_of(make_settings(threads=10)) == 3, 'more than cores would wait for each other'


BEGUN = 'import tensorflow as tf; tf.constant(1) + 1; '
CHOSEN = 'import tensorflow as tf; tf.config.threading.set_intra_op_parallelism_threads(2); '


@pytest.mark.parametrize('before, threads', [('', 1), (BEGUN, 0), (CHOSEN, 2)])
def test_an_operation_has_one_thread_unless_the_program_came_first(before, threads):
    code = f'{before}import virtual_tf as vt; vt.run; import tensorflow as tf; ' \
           'tf.constant(1) + 1; print(tf.config.threading.get_intra_op_parallelism_threads())'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True,
                          env=os.environ | {'TF_CPP_MIN_LOG_LEVEL': '3'})
    assert done.stdout.split() == [str(threads)]


@pytest.mark.parametrize('before, compiler, threads, flags', [
    ('', 'xla', 2, '--xla_cpu_multi_thread_eigen=false'), ('', 'graph', 1, '--xla_cpu_multi_thread_eigen=false'),
    (CHOSEN.replace('(2)', '(3)'), 'xla', 3, '')])
def test_groups_of_a_compiled_loop_have_a_thread_each(before, compiler, threads, flags):
    code = f"""{before}import os
from virtual_tf.core import processors
from virtual_tf.methods.registry import make_settings
from virtual_tf.simulator import side_by_side
processors.cores = lambda: [0, 1]
side_by_side.prepare(make_settings(dict(method='fedavg', compile='{compiler}')))
import tensorflow as tf
print(tf.config.threading.get_intra_op_parallelism_threads(), os.environ.get('XLA_FLAGS', ''))"""
    environment = {name: value for name, value in os.environ.items() if name != 'XLA_FLAGS'}
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True,
                          env=environment | {'TF_CPP_MIN_LOG_LEVEL': '3'})
    assert done.stdout.split() == [str(threads), *([flags] if flags else [])]
