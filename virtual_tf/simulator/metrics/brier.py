"""The Brier score."""
from typing import ClassVar

import tensorflow as tf

from virtual_tf.simulator.metrics.base import Metric, register


@register
class Brier(Metric):
    """Mean of Σ_c (p_c − [y = c])²: from 0 to 2; of two classes it is twice the score of the second alone."""
    name = 'squares'
    best: ClassVar[dict] = {'brier': min}

    def of_targets(self, log_probabilities, y):
        # Σ p² − 2 p_y + 1, without a table of zeros and ones
        probabilities = tf.exp(log_probabilities)
        return (tf.reduce_sum(tf.square(probabilities), axis=-1) + 1.0
                - 2.0 * tf.gather(probabilities, y, batch_dims=y.shape.rank))

    def read(self, sums, targets):
        return {'brier': sums.sum() / targets.sum()}
