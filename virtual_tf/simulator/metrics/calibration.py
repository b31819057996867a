"""Calibration: does a model that is 80 % sure get 80 % right?"""
from typing import ClassVar

import numpy as np
import tensorflow as tf

from virtual_tf.simulator.metrics.base import Metric, register

BINS = 15


def expected_error(sums):
    """The calibration error of sums […, bins, 3]; an empty bin has none, and adds nothing."""
    gaps = np.abs(sums[..., 2] - sums[..., 1])     # n_b · |accuracy_b − confidence_b|
    return gaps.sum(axis=-1) / sums[..., 0].sum(axis=-1)


@register
class Calibration(Metric):
    """Expected calibration error: Σ_b n_b/n · |accuracy_b − mean confidence_b| over 15 equal bins of the confidence.

    The confidence is the probability of the likeliest class; bin b holds those in (b/15, (b + 1)/15]. `ece` is of all
    targets together, `ece_clients` the mean over clients weighted by size, `ece_worst` the largest of a client: small
    test sets raise the latter two even where a model is calibrated.
    """
    name = 'calibration'
    shape = (BINS, 3)     # targets, Σ confidence, hits
    best: ClassVar[dict] = {'ece': min, 'ece_clients': min, 'ece_worst': min}

    def cells(self, log_probabilities, y):
        confidence = tf.exp(tf.reduce_max(log_probabilities, axis=-1))
        return tf.clip_by_value(tf.cast(tf.math.ceil(confidence * BINS), tf.int32) - 1, 0, BINS - 1)

    def of_targets(self, log_probabilities, y):
        confidence = tf.exp(tf.reduce_max(log_probabilities, axis=-1))
        hit = tf.cast(tf.argmax(log_probabilities, axis=-1, output_type=y.dtype) == y, tf.float32)
        return tf.stack([tf.ones_like(hit), confidence, hit], axis=-1)

    def read(self, sums, targets):
        of_clients = expected_error(sums)
        return {'ece': expected_error(sums.sum(axis=0)), 'ece_clients': np.average(of_clients, weights=targets),
                'ece_worst': of_clients.max()}
