"""Metrics as statistics that merge: sums over targets, which add up over chunks, clients and machines, and are read out
at the end. S, MT, the summary, checkpoints, Flower's reports and TensorBoard have every registered one.
"""
import abc
from typing import ClassVar

import numpy as np
import tensorflow as tf

from virtual_tf.core.errors import VirtualTfError

METRICS = {}


class Metric(abc.ABC):
    """One statistic; a subclass says what it adds up and what it reads out of the sums."""
    name: ClassVar[str]
    shape: ClassVar[tuple] = ()     # of the statistic of one client
    best: ClassVar[dict] = {}       # {name of a read-out: max or min}: those that summaries and tables show

    @abc.abstractmethod
    def of_targets(self, log_probabilities, y):
        """Each target's share [C, B, …, *shape], float32; log_probabilities: [C, B, …, classes], y: [C, B, …] ≥ 0.

        Shares of padding are left out by whoever calls.
        """

    @abc.abstractmethod
    def read(self, sums, targets):
        """{name: number} of the sums [K, *shape] of clients with so many targets [K], of which each has some."""


def register(kind):
    """Decorator: an instance of the Metric class below it is measured in every run."""
    if kind.name in METRICS:
        raise VirtualTfError(f'metric {kind.name!r} is there already; register yours under another name')
    METRICS[kind.name] = kind()
    return kind


@register
class Accuracy(Metric):
    """Share of targets whose class is the likeliest, and its spread between clients, weighted by size."""
    name = 'hits'
    best: ClassVar[dict] = {'accuracy': max}

    def of_targets(self, log_probabilities, y):
        return tf.cast(tf.argmax(log_probabilities, axis=-1, output_type=y.dtype) == y, tf.float32)

    def read(self, sums, targets):
        of_clients = sums / targets
        deviations = of_clients - np.average(of_clients, weights=targets)
        return {'accuracy': sums.sum() / targets.sum(),
                'accuracy_std': np.sqrt(np.average(np.square(deviations), weights=targets))}


@register
class CrossEntropy(Metric):
    """Mean of −log p(y | x)."""
    name = 'loss'
    best: ClassVar[dict] = {'cross_entropy': min}

    def of_targets(self, log_probabilities, y):
        return -tf.gather(log_probabilities, y, batch_dims=y.shape.rank)

    def read(self, sums, targets):
        return {'cross_entropy': sums.sum() / targets.sum()}


def best_of():
    """{name: max or min} of what summaries show, in the order of registration."""
    return {name: best for metric in METRICS.values() for name, best in metric.best.items()}
