"""A model of a run, the server's or a client's: its posterior, its predictions, its scores."""
import contextlib
import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.data.federated import FederatedDataset, Split
from virtual_tf.methods.interface import Algorithm
from virtual_tf.networks import gated, layers, uncertainty
from virtual_tf.runs import export, inputs
from virtual_tf.simulator.evaluation import Evaluator

tfd = tfp.distributions
_CHUNK = 1000   # examples in one forward pass


class Prediction(NamedTuple):
    """What a model says of N examples; entropies in nats (networks/uncertainty.py)."""
    probabilities: np.ndarray          # [N, …, classes]
    entropy: np.ndarray                # [N, …] of the probabilities
    mutual_information: np.ndarray     # [N, …] of label and weights; 0 where the weights are certain


@dataclasses.dataclass(frozen=True)
class Parts:
    """What all models of a run have in common."""
    network: gated.Network
    algorithm: Algorithm
    settings: object
    outline: FederatedDataset          # the run's data without its examples

    def signature(self, batch=None):
        """Of x [B, …]; None is any number of examples."""
        return tf.TensorSpec([batch, *self.network.input_shape], self.outline.train.x.dtype, name='x')

    def at_means(self, weights, x):
        """log p(y | x) [B, …, classes] of a network with Weights [1, …] at their means."""
        return tf.nn.log_softmax(gated.logits(self.network, weights, x[tf.newaxis]))[0]

    def sampled(self, weights, x, seed, samples, compiled=True):
        """log E p [B, …, classes] and E H[p] [B, …] over networks that the seed draws."""
        keys = tf.cast(tf.stack([seed, 0])[tf.newaxis], tf.uint32)
        log_mean, entropies = uncertainty.predict(self.network, weights, x[tf.newaxis], keys, samples, compiled)
        return log_mean[0], entropies[0]


class Model:
    """The network of a server or a client, with the belief about its weights."""

    def __init__(self, parts, state, name, number=None, round=None, trained=True, shared=None):
        """state: the server's, or with a number the client's [1, …]; shared: {}, which models of a run share."""
        self.name, self.round, self.trained = name, round, trained
        self.parts, self.state, self._number = parts, state, number
        algorithm = parts.algorithm
        if number is None and algorithm.server_model is None:
            raise VirtualTfError(f'the server of {parts.settings.method} has no whole model: a part of each client\'s '
                                 'stays with it; ask for a client\'s')
        self.beliefs = algorithm.server_model(state) if number is None else algorithm.client_models(state)
        self._compiled = {} if shared is None else shared

    def __repr__(self):
        remark = '' if self.trained else ', the server: never selected'
        return f'Model({self.name!r}, round {self.round}{remark})'

    @property
    def weights(self):
        """{name: array}: the means of the weights, private/… for those of the private path, gates/… for its gates."""
        return {name: np.asarray(value.mean() if layers.is_gaussian(value) else value)[0]
                for name, value in self._named()}

    @property
    def posterior(self):
        """{name: tfd.Normal} of every weight, those of the private path as private/…"""
        found = {name: tfd.Normal(value.loc[0], value.scale[0]) for name, value in self._named()
                 if layers.is_gaussian(value)}
        if not found:
            raise VirtualTfError(f'{self.name!r} has no posterior: the weights of {self.parts.settings.method} are '
                                 'numbers, which .weights has')
        return found

    @property
    def joint(self):
        """The posterior as one distribution over dicts of weights."""
        return tfd.JointDistributionNamed({name: tfd.Independent(normal, normal.loc.shape.rank)
                                           for name, normal in self.posterior.items()})

    def predict(self, x, samples=0, seed=0):
        """The Prediction of examples [N, …]: at the mean weights, or over `samples` networks drawn by the seed."""
        log_mean, entropies = self._predict(inputs.examples(x, self.parts.outline), samples, seed)
        gained = uncertainty.mutual_information(log_mean, entropies) if samples else tf.zeros_like(entropies)
        return Prediction(np.exp(log_mean), uncertainty.entropy(log_mean).numpy(), gained.numpy())

    def log_prob(self, x, y, samples=0, seed=0):
        """log p(y | x) of each target [N, …]; NaN where y is negative, which is no target."""
        x, y = inputs.labelled(x, y, self.parts.outline)
        log_mean, _ = self._predict(x, samples, seed)
        at_targets = np.take_along_axis(log_mean, np.maximum(y, 0)[..., np.newaxis], axis=-1)[..., 0]
        return np.where(y >= 0, at_targets, np.nan)

    def evaluate(self, x, y, samples=0):
        """{metric: value} on labelled examples, as the run measures S and MT; over `samples` as eval_samples does."""
        x, y = inputs.labelled(x, y, self.parts.outline)
        parts = self.parts
        settings = parts.settings.replace(eval_samples=samples)
        evaluator = Evaluator(parts.network, parts.algorithm, Split.of([(x, y)]), settings, [self._number or 0])
        scores = evaluator.server(self.state) if self._number is None else evaluator.clients(
            self.state, np.array([0]))
        *_, last = scores.values()     # over samples where there are any
        return last.summary()

    def trace(self):
        """Raises what a layer raises that does not take any number of examples."""
        tf.function(self.parts.at_means, autograph=False).get_concrete_function(self.beliefs, self.parts.signature())

    def export(self, path, format='savedmodel', draws=0, seed=0):
        """Writes the model as savedmodel, tflite or keras; returns the path (runs/export)."""
        return export.export(self, path, format, draws, seed)

    def _predict(self, x, samples, seed):
        """log p [N, …, classes] and the mean entropy of single networks [N, …], as arrays."""
        if samples < 0:
            raise VirtualTfError(f'samples must be at least 0, got {samples}; 0 predicts at the mean weights')
        parts = []
        for start in range(0, len(x), _CHUNK):
            chunk = tf.constant(x[start:start + _CHUNK])
            if samples:
                parts.append(self._function('sampled')(self.beliefs, chunk, tf.constant(seed), tf.constant(samples)))
            else:
                log_probabilities = self._function('at_means')(self.beliefs, chunk)
                parts.append((log_probabilities, uncertainty.entropy(log_probabilities)))
        return tuple(np.concatenate([part[i] for part in parts]) for i in range(2))

    def _function(self, name):
        """at_means or sampled of Parts, traced once for all batch sizes where the layers allow it."""
        key = name, bool(self.beliefs.private)
        if key not in self._compiled:
            self._compiled[key] = _compiled(getattr(self.parts, name), self.beliefs, self.parts.signature())
        return self._compiled[key]

    def _named(self):
        """(name, weight [1, …]) of all that the network has."""
        for prefix, path in (('', self.beliefs.shared), ('private/', self.beliefs.private),
                             ('gates/', self.beliefs.gates)):
            yield from ((prefix + name, value) for name, value in path.items())


def _compiled(function, weights, signature):
    """A tf.function for any number of examples, or where a layer of a user's own needs to know it, for each number."""
    compiled = tf.function(function, autograph=False)
    scalars = [tf.TensorSpec([], tf.int32)] * 2 if function.__name__ == 'sampled' else []
    with contextlib.suppress(TypeError, ValueError):
        compiled.get_concrete_function(weights, signature, *scalars)
    return compiled
