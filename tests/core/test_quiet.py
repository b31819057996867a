"""What TensorFlow says of itself, in a process of its own: the filter of a logger would stay for other tests."""
import logging
import pathlib
import subprocess
import sys

from virtual_tf.core import quiet

ROOT = pathlib.Path(__file__).parents[2]
# TensorFlow warns when five of a function's last calls were traced.
SHORT_RUNS = '''
import tensorflow as tf
import virtual_tf as vt
vt.layers
from virtual_tf.networks import gated, models
from virtual_tf.simulator.evaluation import Evaluator

for run in range(6):
    evaluator = Evaluator.__new__(Evaluator)
    evaluator._ways = {'': 0}
    score = evaluator._compile(models.build('mlp', (3,), 2, hidden=()), gated.without_private)
    score({'dense_1/kernel': tf.zeros([1, 3, 2])}, tf.zeros([1, 4, 3]), tf.zeros([1, 4], tf.int32), None)

for run in range(6):
    @tf.function
    def your_own(x):
        return x + run
    your_own(tf.zeros([]))
'''


def test_what_is_compiled_once_a_run_is_no_retracing_and_a_function_of_your_own_may_be():
    done = subprocess.run([sys.executable, '-c', SHORT_RUNS], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if 'triggered tf.function retracing' in line]
    assert warnings and all('your_own' in line for line in warnings), done.stderr


def test_where_an_export_keeps_temporary_files_is_not_worth_saying():
    def record(message):
        return logging.LogRecord('tensorflow', logging.INFO, '', 0, message, ('/tmp/x',), None)

    assert not quiet.is_worth_saying(record('Assets written to: %s'))
    assert quiet.is_worth_saying(record('Something else was written to: %s'))
