"""S and MT: the server's and the clients' networks on the clients' test data.

S (`server`) tests the server's model on all test data; MT (`mt`) tests each client's own model on its own. Predictions
are made at the mean weights; with eval_samples those of Gaussian weights are also averaged over samples of them
(`server_sampled`, `mt_sampled`). What is measured is in metrics/; averages are over targets, so over clients weighted
by test size.
"""
import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from virtual_tf.core import random_streams
from virtual_tf.core.client_axis import in_groups, take, ungroup
from virtual_tf.methods import registry
from virtual_tf.networks import gated
from virtual_tf.simulator import metrics, side_by_side
from virtual_tf.simulator.metrics import METRICS

VISITED = '_visited'     # ending of MT over the clients that have trained alone: others deploy the initial model
MODELS = ('server', 'mt', f'mt{VISITED}', 'server_sampled', 'mt_sampled')     # what a run may have scores of
_CHUNK = 1000   # examples in one forward pass of the server's model


class Scores(NamedTuple):
    """Sums over each client's test targets."""
    sums: dict               # {metric: [K, *shape]}, NaN for a client that was not measured
    targets: np.ndarray      # [K]

    @classmethod
    def unmeasured(cls, targets, num_classes):
        return cls({name: np.full([len(targets), *shape], np.nan)
                    for name, shape in metrics.shapes(num_classes).items()}, targets)

    def put(self, ids, others):
        """Takes the scores of these clients, in place."""
        for name, sums in others.sums.items():
            self.sums[name][ids] = sums

    def copy(self):
        return Scores({name: sums.copy() for name, sums in self.sums.items()}, self.targets)

    def take(self, rows):
        """The scores of these clients alone."""
        return Scores({name: sums[rows] for name, sums in self.sums.items()}, self.targets[rows])

    def summary(self):
        """{name: number} of all metrics over the clients that have targets; NaN before any was measured."""
        read = {}
        for name, sums in self.sums.items():
            measured = (self.targets > 0) & ~np.isnan(sums.reshape(len(self.targets), -1)).any(axis=1)
            if not measured.any():
                measured = self.targets > 0     # what is read out of NaN is NaN
            found = METRICS[name].read(sums[measured], self.targets[measured])
            read |= {key: float(value) for key, value in found.items()}
        return read


def ways_to_predict(settings):
    """{ending of a model's name: number of weight samples}; 0 is at the means."""
    samples = settings.eval_samples if registry.find(settings.method).gaussian else 0
    return {'': 0} | ({'_sampled': samples} if samples else {})


class Evaluator:
    """Scores states of one algorithm on one split; compiled once for the server and once for a cohort.

    `numbers` are those of the clients in a larger federation, whose random streams they name.
    """

    def __init__(self, network, algorithm, split, settings, numbers=None):
        self._split = split
        self._numbers = np.arange(len(split.sizes())) if numbers is None else np.asarray(numbers)
        self._targets, self._num_classes = split.targets(), network.num_classes()
        self._owners = np.repeat(np.arange(len(self._targets)), split.sizes())     # of the examples
        self._ways, self._clients_per_call = ways_to_predict(settings), settings.clients_per_call
        self._threads = side_by_side.threads_of(settings)
        self._seed = settings.seed
        self._server = algorithm.server_model and self._compile(network, algorithm.server_model)
        self._clients = self._compile(network, algorithm.client_models)
        self.chunks = range(0, len(split.y), _CHUNK)     # what the server's model is tested on at once
        self._chunk = functools.cache(lambda start: _chunk(split, start))     # made when it is first used

    def server(self, state):
        """{server, server_sampled: Scores [K]} of the server's model on every client's data; NaN where it has none."""
        return self.whole_server([self.server_part(state, self.chunks)] if self._server else [])

    def whole_server(self, parts):
        """{server, server_sampled: Scores [K]} of the server_parts of all chunks; without any they are NaN."""
        scores = {f'server{way}': Scores.unmeasured(self._targets, self._num_classes) for way in self._ways}
        for name, whole in scores.items() if parts else ():
            for metric, sums in whole.sums.items():
                sums.fill(0.0)
                for first, part in parts:
                    found = part[name].sums[metric]
                    sums[first:first + len(found)] += found
        return scores

    def server_part(self, state, chunks):
        """(first client, {server, server_sampled: Scores}) of the clients in some chunks next to each other.

        Of the first and the last client there may be examples in other chunks too: sums of parts add up.
        """
        keys = random_streams.make_keys(self._seed, random_streams.EVALUATION)
        parts = side_by_side.map_groups(
            lambda start: self._server(state, *self._chunk(start), keys), chunks, self._threads)
        owners = self._owners[chunks[0]:chunks[-1] + _CHUNK]
        values = tf.nest.map_structure(
            lambda *several: np.concatenate([one.numpy()[0] for one in several])[:len(owners)], *parts)
        return owners[0], self._scores('server', values, owners - owners[0], self._targets[owners[0]:owners[-1] + 1])

    def clients(self, states, ids):
        """{mt, mt_sampled: Scores [C]} of these clients' own models on their own data."""
        # All are padded to the largest client of the data, so all take equally long.
        sizes, largest = self._split.sizes(), int(self._split.sizes().max())
        per_call = side_by_side.group_size(np.ones(1), len(ids), self._threads, self._clients_per_call)
        groups = in_groups(sizes[ids], per_call)
        keys = random_streams.make_keys(self._seed, random_streams.EVALUATION, ids=self._numbers[ids])

        def score(rows):
            return self._clients(take(states, rows), *self._split.padded(ids[rows], largest), keys[rows])

        values = ungroup(side_by_side.map_groups(score, groups, self._threads), groups)
        values = tf.nest.map_structure(lambda value: value.numpy().reshape([-1, *value.shape[2:]]), values)
        return self._scores('mt', values, np.repeat(np.arange(len(ids)), largest), self._targets[ids])

    def _scores(self, model, values, owners, targets):
        """The Scores of each way to predict, of what the examples [N, …] of these owners have."""
        return {f'{model}{way}': Scores(metrics.add_up(found, owners, len(targets), self._num_classes), targets)
                for way, found in values.items()}

    def _compile(self, network, model):
        @tf.function(autograph=False)
        def score(state, x, y, keys):
            """{way to predict: {metric: what each example has of it}}, as metrics.shares gives it."""
            weights = model(state)
            return {way: _of_examples(predict(network, weights, x, samples, keys), y)
                    for way, samples in self._ways.items()}
        return score


def _of_examples(log_probabilities, y):
    """metrics.shares, summed over the targets of an example where that is all that is needed."""
    axes = list(range(2, y.shape.rank))
    return {name: found if found[1:] else [tf.reduce_sum(found[0], axis=axes)]
            for name, found in metrics.shares(log_probabilities, y).items()}


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
