"""Metrics, a file each; imported here in the order in which tables show them."""
# ruff: noqa: I001
from virtual_tf.simulator.metrics.base import METRICS, Metric, add_up, best_of, register, shapes, shares
from virtual_tf.simulator.metrics.accuracy import Accuracy
from virtual_tf.simulator.metrics.cross_entropy import CrossEntropy
from virtual_tf.simulator.metrics.classes import Classes
from virtual_tf.simulator.metrics.ranking import Ranking
from virtual_tf.simulator.metrics.calibration import Calibration
from virtual_tf.simulator.metrics.brier import Brier

__all__ = ['METRICS', 'Accuracy', 'Brier', 'Calibration', 'Classes', 'CrossEntropy', 'Metric', 'Ranking', 'add_up',
           'best_of', 'register', 'shapes', 'shares']
