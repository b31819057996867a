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

        Shares of padding, whose y is 0 here, are left out by whoever calls.
        """

    @abc.abstractmethod
    def read(self, sums, targets):
        """{name: number} of the sums [K, *shape] of clients with so many targets [K], of which each has some."""


def register(kind):
    """Decorator: an instance of the Metric class below it is measured in every run."""
    if kind.name in METRICS:
        raise VirtualTfError(f'metric {kind.name!r} is there already; register yours under another name')
    metric = kind()
    METRICS[kind.name] = _checked(metric)
    return kind


def _checked(metric):
    """The metric, if what it reads out of some sums is what it says and nobody else's."""
    found = metric.read(np.ones([1, *metric.shape]), np.ones(1))
    if not isinstance(found, dict):
        raise VirtualTfError(f'read of metric {metric.name!r} must give {{name: number}}, it gives {found!r}')
    if wrong := [name for name, best in metric.best.items() if name not in found or best not in (max, min)]:
        raise VirtualTfError(f'best of metric {metric.name!r} must have names that read gives ({", ".join(found)}), '
                             f'each with the function max or min; it has {wrong[0]!r}: {metric.best[wrong[0]]!r}')
    for other in METRICS.values():
        if taken := {*found} & {*other.read(np.ones([1, *other.shape]), np.ones(1))}:
            raise VirtualTfError(f'metric {metric.name!r} reads out {min(taken)!r}, which metric {other.name!r} gives; '
                                 'use another name')
    return metric


def shares(log_probabilities, y):
    """{metric: each target's share [C, B, …, *shape]} of all metrics; negative y are no targets and have zeros."""
    real, label, found = y >= 0, tf.maximum(y, 0), {}
    for name, metric in METRICS.items():
        share, expected = metric.of_targets(log_probabilities, label), [*y.shape, *metric.shape]
        if share.shape.as_list() != expected:
            raise VirtualTfError(f'of_targets of metric {name!r} gives the shape {share.shape.as_list()} where it must '
                                 f'be {expected}, one value of shape {list(metric.shape)} a target')
        found[name] = tf.where(tf.reshape(real, [*real.shape] + [1] * len(metric.shape)), share, 0.0)
    return found


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
