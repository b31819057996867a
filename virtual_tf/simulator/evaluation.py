"""S and MT: the server's and the clients' networks on the clients' test data.

S tests the server's model on all test data; MT tests each client's own model on its own. Both are averages over
clients weighted by test size, so over targets.
"""
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from virtual_tf.core import random_streams
from virtual_tf.core.client_axis import in_groups, take, ungroup
from virtual_tf.data.federated import EVALUATION
from virtual_tf.networks import models

_CHUNK = 1000   # examples in one forward pass of the server's model


class Scores(NamedTuple):
    """Sums over each client's test targets: [K] or [C]."""
    loss: np.ndarray
    hits: np.ndarray
    targets: np.ndarray

    def summary(self):
        """Weighted averages, and the spread of accuracy between clients."""
        tested = self.targets > 0
        accuracy = self.hits[tested] / self.targets[tested]
        return {'accuracy': self.hits.sum() / self.targets.sum(),
                'cross_entropy': self.loss.sum() / self.targets.sum(),
                'accuracy_std': np.sqrt(np.average(np.square(accuracy - np.average(
                    accuracy, weights=self.targets[tested])), weights=self.targets[tested]))}


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
        keys = random_streams.make_keys(self._seed, EVALUATION)
        parts = [self._server(state, x, y, keys) for x, y in self._chunks]
        loss, hits = (np.concatenate([part[i].numpy()[0] for part in parts])[:len(self._split.y)] for i in range(2))
        totals = [np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)]) for values in (loss, hits)]
        return Scores(*(np.diff(total[self._split.offsets]) for total in totals), self._targets)

    def clients(self, states, ids):
        """Scores of these clients' own models on their own data [C]."""
        sizes = self._split.sizes()
        groups = in_groups(sizes[ids], self._clients_per_call)
        keys = random_streams.make_keys(self._seed, EVALUATION, ids=self._numbers[ids])
        loss, hits = ungroup([
            self._clients(take(states, rows), *self._split.padded(ids[rows], int(sizes.max())), keys[rows])
            for rows in groups], groups)
        return Scores(*(values.numpy().sum(axis=1, dtype=np.float64) for values in (loss, hits)), self._targets[ids])

    def _compile(self, network, model):
        @tf.function(autograph=False)
        def score(state, x, y, keys):
            """Loss and hits of each example [C, B], summed over its targets."""
            log_probabilities = predict(network, model(state), x, self._samples, keys)
            real = tf.cast(y >= 0, tf.float32)
            label = tf.maximum(y, 0)
            loss = -real * tf.gather(log_probabilities, label, batch_dims=label.shape.rank)
            hits = real * tf.cast(tf.argmax(log_probabilities, axis=-1, output_type=y.dtype) == label, tf.float32)
            axes = list(range(2, y.shape.rank))
            return tf.reduce_sum(loss, axis=axes), tf.reduce_sum(hits, axis=axes)
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
        return tf.nn.log_softmax(models.logits(network, weights, x))
    keys = tf.convert_to_tensor(keys)
    streams = [random_streams.Stream(random_streams.fold_in(keys, i)) for i in range(samples)]
    draws = [tf.nn.log_softmax(models.logits(network, weights, x, stream)) for stream in streams]
    return tf.reduce_logsumexp(tf.stack(draws), axis=0) - np.log(samples).astype(np.float32)
