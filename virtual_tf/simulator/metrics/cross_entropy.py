"""Cross-entropy."""
from typing import ClassVar

import tensorflow as tf

from virtual_tf.simulator.metrics.base import Metric, register


@register
class CrossEntropy(Metric):
    """Mean of −log p(y | x)."""
    name = 'loss'
    best: ClassVar[dict] = {'cross_entropy': min}

    def of_targets(self, log_probabilities, y):
        return -tf.gather(log_probabilities, y, batch_dims=y.shape.rank)

    def read(self, sums, targets):
        return {'cross_entropy': sums.sum() / targets.sum()}
