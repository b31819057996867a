"""Accuracy, and how it differs between clients."""
from typing import ClassVar

import numpy as np
import tensorflow as tf

from virtual_tf.simulator.metrics.base import Metric, register


@register
class Accuracy(Metric):
    """Share of targets whose class is the likeliest; its deviation over clients, 10th percentile and worst client.

    The deviation is weighted by size, as the mean is; the other two count every client once.
    """
    name = 'hits'
    best: ClassVar[dict] = {'accuracy': max, 'accuracy_std': min, 'accuracy_p10': max, 'accuracy_worst': max}

    def of_targets(self, log_probabilities, y):
        return tf.cast(tf.argmax(log_probabilities, axis=-1, output_type=y.dtype) == y, tf.float32)

    def read(self, sums, targets):
        of_clients = sums / targets
        deviations = of_clients - np.average(of_clients, weights=targets)
        return {'accuracy': sums.sum() / targets.sum(),
                'accuracy_std': np.sqrt(np.average(np.square(deviations), weights=targets)),
                'accuracy_p10': np.percentile(of_clients, 10), 'accuracy_worst': of_clients.min()}
