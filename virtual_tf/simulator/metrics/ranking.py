"""AUROC of two classes: how often a positive gets a higher score than a negative."""
from typing import ClassVar

import numpy as np
import tensorflow as tf

from virtual_tf.simulator.metrics.base import Metric, register

CELLS = 256
_LIMIT = 6.0     # sinh(6): log-odds of 200, beyond which all are one


def area_under_curve(negatives, positives):
    """P(positive > negative) + P(equal)/2 of counts by ascending score [cells]; NaN if there is none of one kind."""
    pairs = negatives.sum() * positives.sum()
    below = np.cumsum(negatives) - negatives
    return np.sum(positives * (below + negatives / 2)) / pairs if pairs else np.nan


@register
class Ranking(Metric):
    """The probability that the log-odds of a random positive (class 1) exceed those of a random negative.

    Ranks do not add up, counts do: of each class, how many targets have log-odds in which cell of a grid. Its cells are
    0.05 wide at even odds and 5 % of the log-odds further out. A pair in one cell counts half, as a tie does: that is
    the whole error, and what is summed is exact.
    """
    name = 'log_odds'
    best: ClassVar[dict] = {'auroc': max}

    def shape_for(self, num_classes):
        return (CELLS, 2) if num_classes == 2 else None     # negatives, positives

    def cells(self, log_probabilities, y):
        log_odds = log_probabilities[..., 1] - log_probabilities[..., 0]
        place = (tf.asinh(log_odds) + _LIMIT) / (2 * _LIMIT) * CELLS
        return tf.clip_by_value(tf.cast(tf.floor(place), tf.int32), 0, CELLS - 1)

    def of_targets(self, log_probabilities, y):
        return tf.one_hot(y, 2)

    def read(self, sums, targets):
        return {'auroc': area_under_curve(*sums.sum(axis=0).T)}
