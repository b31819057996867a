"""Layers as functions of their weights, stacked over clients.

A weight is a tensor [C, …] or a tfd.Normal of that shape; x is [C, B, …]. The deterministic layer is the Bayesian
one with tensors for weights. A Bayesian layer without a stream uses the means (the plug-in prediction).

A layer is a frozen record with
    weight_shapes(input_shape) → {name: shape}, empty for a layer without weights
    output_shape(input_shape)  → shape
    linear(weights, x, stream) → what its activation is applied to, after the lateral connection has been added
    activation                 → a function
Shapes are those of one example of one client.
"""
import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

tfd = tfp.distributions

ESTIMATORS = ('local', 'sample')
_TINY_VARIANCE = 1e-20


def is_gaussian(weight):
    return isinstance(weight, tfd.Distribution)


def draw(weight, stream):
    """One value of a weight a client: itself, its mean without a stream, or a sample μ + σ·ε."""
    if not is_gaussian(weight):
        return weight
    if stream is None:
        return weight.mean()
    return weight.loc + weight.scale * stream.normal(weight.loc.shape[1:])


def dense(x, kernel, bias=None, stream=None, estimator='local'):
    """x·kernel + bias: [C, B, …, I] with [C, I, O] and [C, O] → [C, B, …, O].

    `local` samples the pre-activations (local reparameterisation, Kingma et al. 2015): independent noise for every
    example from weight-sized means and variances. `sample` draws the weights once a client and call.
    """
    if is_gaussian(kernel) and stream is not None and estimator == 'local':
        mean = dense(x, kernel.mean(), None if bias is None else bias.mean())
        variance = dense(tf.square(x), kernel.variance(), None if bias is None else bias.variance())
        # A unit that no input reaches has variance 0, where the root has no derivative.
        scale = tf.sqrt(tf.maximum(variance, _TINY_VARIANCE))
        return mean + scale * stream.normal(mean.shape[1:])
    kernel = draw(kernel, stream)
    rows = tf.reshape(x, [tf.shape(x)[0], -1, x.shape[-1]])
    outputs = tf.reshape(tf.matmul(rows, kernel), [-1, *x.shape[1:-1], kernel.shape[-1]])
    return outputs if bias is None else outputs + over_units(draw(bias, stream), outputs)


def over_units(value, like):
    """[C, U] → [C, 1, …, 1, U], to act on the units of [C, B, …, U]."""
    return tf.reshape(value, [-1] + [1] * (like.shape.rank - 2) + [value.shape[-1]])


@dataclasses.dataclass(frozen=True)
class Dense:
    units: int
    activation: Callable = tf.identity
    use_bias: bool = False
    estimator: str = 'local'

    def weight_shapes(self, input_shape):
        shapes = {'kernel': (input_shape[-1], self.units)}
        return shapes | {'bias': (self.units,)} if self.use_bias else shapes

    def output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def linear(self, weights, x, stream=None):
        return dense(x, weights['kernel'], weights.get('bias'), stream, self.estimator)


@dataclasses.dataclass(frozen=True)
class Flatten:
    """[C, B, …] → [C, B, D]"""
    activation: Callable = tf.identity

    def weight_shapes(self, input_shape):
        return {}

    def output_shape(self, input_shape):
        return (int(np.prod(input_shape)),)

    def linear(self, weights, x, stream=None):
        return tf.reshape(x, [*x.shape[:2], *self.output_shape(x.shape[2:])])
