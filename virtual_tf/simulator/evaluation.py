"""S and MT: the server's and the clients' networks on the clients' test data.

S tests the server's model on all test data; MT tests each client's own model on its own. Predictions are made at the
mean weights, or averaged over weight samples. What is measured is in metrics.py; averages are over targets, so over
clients weighted by test size.
"""
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from virtual_tf.core import random_streams
from virtual_tf.core.client_axis import in_groups, take, ungroup
from virtual_tf.networks import gated
from virtual_tf.simulator.metrics import METRICS, shares

_CHUNK = 1000   # examples in one forward pass of the server's model


class Scores(NamedTuple):
    """Sums over each client's test targets."""
    sums: dict               # {metric: [K, *shape]}, NaN for a client that was not measured
    targets: np.ndarray      # [K]

    @classmethod
    def unmeasured(cls, targets):
        return cls({name: np.full([len(targets), *metric.shape], np.nan) for name, metric in METRICS.items()}, targets)

    def put(self, ids, others):
        """Takes the scores of these clients, in place."""
        for name, sums in others.sums.items():
            self.sums[name][ids] = sums

    def take(self, rows):
        """The scores of these clients alone."""
        return Scores({name: sums[rows] for name, sums in self.sums.items()}, self.targets[rows])

    def summary(self):
        """{name: number} of all metrics over the clients that have targets; NaN before any was measured."""
        read = {}
        for name, metric in METRICS.items():
            sums = self.sums[name].reshape(len(self.targets), -1)
            measured = (self.targets > 0) & ~np.isnan(sums).any(axis=1)
            if not measured.any():
                measured = self.targets > 0     # what is read out of NaN is NaN
            found = metric.read(self.sums[name][measured], self.targets[measured])
            read |= {key: float(value) for key, value in found.items()}
        return read


class Evaluator:
    """Scores states of one algorithm on one split; compiled once for the server and once for a cohort.

    `numbers` are those of the clients in a larger federation, whose random streams they name.
    """

    def __init__(self, network, algorithm, split, settings, numbers=None):
        self._split = split
        self._numbers = np.arange(len(split.sizes())) if numbers is None else np.asarray(numbers)
        self._targets = split.targets()
        self._samples, self._clients_per_call = settings.eval_samples, settings.clients_per_call
        self._seed = settings.seed
        self._server = self._compile(network, algorithm.server_model)
        self._clients = self._compile(network, algorithm.client_models)
        self._chunks = [_chunk(split, start) for start in range(0, len(split.y), _CHUNK)]

    def server(self, state):
        """Scores of the server's model on every client's data [K]."""
        keys = random_streams.make_keys(self._seed, random_streams.EVALUATION)
        parts = [self._server(state, x, y, keys) for x, y in self._chunks]
        return Scores({name: self._by_client(np.concatenate([part[name].numpy()[0] for part in parts]))
                       for name in parts[0]}, self._targets)

    def _by_client(self, values):
        """Sums [K, …] of what the examples have, one client after the other."""
        totals = np.cumsum(values[:len(self._split.y)], axis=0, dtype=np.float64)
        return np.diff(np.concatenate([np.zeros([1, *totals.shape[1:]]), totals])[self._split.offsets], axis=0)

    def clients(self, states, ids):
        """Scores of these clients' own models on their own data [C]."""
        sizes = self._split.sizes()
        groups = in_groups(sizes[ids], self._clients_per_call)
        keys = random_streams.make_keys(self._seed, random_streams.EVALUATION, ids=self._numbers[ids])
        values = ungroup([
            self._clients(take(states, rows), *self._split.padded(ids[rows], int(sizes.max())), keys[rows])
            for rows in groups], groups)
        return Scores({name: value.numpy().sum(axis=1, dtype=np.float64) for name, value in values.items()},
                      self._targets[ids])

    def _compile(self, network, model):
        @tf.function(autograph=False)
        def score(state, x, y, keys):
            """{metric: what each example has of it [C, B, *shape]}, summed over its targets."""
            log_probabilities = predict(network, model(state), x, self._samples, keys)
            axes = list(range(2, y.shape.rank))
            return {name: tf.reduce_sum(share, axis=axes) for name, share in shares(log_probabilities, y).items()}
        return score


def _chunk(split, start):
    """_CHUNK examples [1, B, …] from `start` on, filled up without targets: all have one shape and are traced once."""
    x, y = split.x[start:start + _CHUNK], split.y[start:start + _CHUNK]
    missing = _CHUNK - len(y)
    return (tf.constant(np.pad(x, [(0, missing)] + [(0, 0)] * (x.ndim - 1)))[tf.newaxis],
            tf.constant(np.pad(y, [(0, missing)] + [(0, 0)] * (y.ndim - 1), constant_values=-1))[tf.newaxis])


def predict(network, weights, x, samples, keys):
    """log p(y | x) [C, B, …, classes]: at the mean weights, or averaged over weight samples by the keys [C, 2]."""
    if not samples:
        return tf.nn.log_softmax(gated.logits(network, weights, x))
    keys = tf.convert_to_tensor(keys)
    streams = [random_streams.Stream(random_streams.fold_in(keys, i)) for i in range(samples)]
    draws = [tf.nn.log_softmax(gated.logits(network, weights, x, stream)) for stream in streams]
    return tf.reduce_logsumexp(tf.stack(draws), axis=0) - np.log(samples).astype(np.float32)
