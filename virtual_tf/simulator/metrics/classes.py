"""Accuracy class by class, where some are rare."""
from typing import ClassVar

import numpy as np
import tensorflow as tf

from virtual_tf.simulator.metrics.base import Metric, register


@register
class Classes(Metric):
    """Balanced accuracy: the mean of each class's accuracy, over the classes that have targets.

    A constant prediction has 1/classes of it, whatever is common. `constant_accuracy` is what the best constant has of
    plain accuracy: the share of the commonest class.
    """
    name = 'class_hits'
    best: ClassVar[dict] = {'balanced_accuracy': max, 'constant_accuracy': max}

    def shape_for(self, num_classes):
        return num_classes, 2     # targets, hits

    def cells(self, log_probabilities, y):
        return y

    def of_targets(self, log_probabilities, y):
        hit = tf.cast(tf.argmax(log_probabilities, axis=-1, output_type=y.dtype) == y, tf.float32)
        return tf.stack([tf.ones_like(hit), hit], axis=-1)

    def read(self, sums, targets):
        count, hits = sums.sum(axis=0).T
        there = count > 0
        return {'balanced_accuracy': np.mean(hits[there] / count[there]) if there.any() else np.nan,
                'constant_accuracy': count.max() / count.sum()}
