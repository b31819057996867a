"""What a metric is, the registry, and how targets add up.

A metric is a statistic that merges: sums over targets, which add up over chunks, clients and machines, and are read out
at the end. S, MT, the summary, checkpoints, Flower's reports and TensorBoard have every registered one.
"""
import abc
import math
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

    def shape_for(self, num_classes):
        """The shape where there are so many classes; None if the metric is not for that many."""
        return self.shape

    def cells(self, log_probabilities, y):
        """For a statistic that is a row of cells, of which a target adds to one: to which [C, B, …]; else None.

        of_targets then gives what it adds to its cell, of the shape shape[1:], and so a fine histogram costs no more
        than a coarse one.
        """
        return None

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
    found = _read_of_ones(metric)
    if not isinstance(found, dict):
        raise VirtualTfError(f'read of metric {metric.name!r} must give {{name: number}}, it gives {found!r}')
    if wrong := [name for name, best in metric.best.items() if name not in found or best not in (max, min)]:
        raise VirtualTfError(f'best of metric {metric.name!r} must have names that read gives ({", ".join(found)}), '
                             f'each with the function max or min; it has {wrong[0]!r}: {metric.best[wrong[0]]!r}')
    for other in METRICS.values():
        if taken := {*found} & {*_read_of_ones(other)}:
            raise VirtualTfError(f'metric {metric.name!r} reads out {min(taken)!r}, which metric {other.name!r} gives; '
                                 'use another name')
    return metric


def _read_of_ones(metric):
    shape = next(shape for classes in (2, 3, 10) if (shape := metric.shape_for(classes)) is not None)
    return metric.read(np.ones([1, *shape]), np.ones(1))


def shapes(num_classes):
    """{metric: shape} of those that are for so many classes, in the order of registration."""
    found = {name: metric.shape_for(num_classes) for name, metric in METRICS.items()}
    return {name: tuple(shape) for name, shape in found.items() if shape is not None}


def shares(log_probabilities, y):
    """{metric: [share [C, B, …, *shape]] or [share [C, B, …, *shape[1:]], cell [C, B, …]]} of every target.

    Negative y are no targets and have zeros.
    """
    real, label, found = y >= 0, tf.maximum(y, 0), {}
    for name, shape in shapes(log_probabilities.shape[-1]).items():
        metric = METRICS[name]
        share, cell = metric.of_targets(log_probabilities, label), metric.cells(log_probabilities, label)
        of_one = shape if cell is None else shape[1:]
        if share.shape.as_list() != [*y.shape, *of_one]:
            raise VirtualTfError(f'of_targets of metric {name!r} gives the shape {share.shape.as_list()} where it must '
                                 f'be {[*y.shape, *of_one]}, one value of shape {list(of_one)} a target')
        share = tf.where(tf.reshape(real, [*real.shape] + [1] * len(of_one)), share, 0.0)
        found[name] = [share] if cell is None else [share, tf.where(real, cell, 0)]
    return found


def add_up(found, owners, clients, num_classes):
    """{metric: sums [K, *shape], float64} of what `shares` gives of examples [N, …] that belong to the owners [N]."""
    return {name: _by_owner(*found[name], owners=owners, clients=clients, shape=shape)
            for name, shape in shapes(num_classes).items()}


def _by_owner(share, cell=None, *, owners, clients, shape):
    rows = 1 if cell is None else shape[0]
    each = math.prod(share.shape[1:]) // math.prod(shape if cell is None else shape[1:])     # targets of an example
    index = np.repeat(owners, each)
    if cell is not None:
        index = index * rows + cell.reshape(-1)
    columns = share.reshape(len(index), -1).T
    sums = [np.bincount(index, weights=column, minlength=clients * rows) for column in columns]
    return np.stack(sums, axis=-1).reshape([clients, *shape])


def best_of():
    """{name: max or min} of what summaries show, in the order of registration."""
    return {name: best for metric in METRICS.values() for name, best in metric.best.items()}
