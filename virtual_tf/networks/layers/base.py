"""What every layer is: a frozen record of functions of its weights, stacked over clients.

A weight is a tensor [C, …] or a tfd.Normal of that shape; x is [C, B, …]. The deterministic layer is the Bayesian
one with tensors for weights. A Bayesian layer without a stream uses the means (the plug-in prediction).
"""
import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

tfd = tfp.distributions


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer without weights that changes nothing; others say what they do differently. Shapes leave out [C, B]."""
    # Acts on what `linear` gives, after the lateral connection has been added.
    activation: Callable = dataclasses.field(default=tf.identity, kw_only=True)

    @property
    def wants_variance(self):
        """Whether `linear` multiplies by the variances of Gaussian weights, rather than draw the weights."""
        return False

    def weight_shapes(self, input_shape):
        """{name: shape}, empty for a layer without weights."""
        return {}

    def output_shape(self, input_shape):
        return tuple(input_shape)

    def linear(self, weights, x, stream=None):
        """[C, B, *input_shape] → [C, B, *output_shape]"""
        return x

    def initial_mean(self, name, shape, normal, mean_init, mean_scale):
        """Mean of a weight before training [C, *shape], from normal(shape): Glorot's or N(0, mean_scale²); biases 0.

        A weight of one dimension has no fan-in and is taken for a bias, whatever its name.
        """
        if len(shape) < 2:
            return 0.0 * normal(shape)
        # Glorot and Bengio 2010: variance 2 / (fan_in + fan_out).
        receptive = int(np.prod(shape[:-2]))
        glorot = np.sqrt(2.0 / (receptive * (shape[-2] + shape[-1])))
        return (mean_scale if mean_init == 'normal' else glorot) * normal(shape)


def is_gaussian(weight):
    return isinstance(weight, tfd.Distribution)


def draw(weight, stream):
    """One value of a weight a client: itself, its mean without a stream, or a sample μ + σ·ε."""
    if not is_gaussian(weight):
        return weight
    if stream is None:
        return weight.mean()
    return weight.loc + weight.scale * stream.normal(weight.loc.shape[1:])


def sizes(x):
    """The shape of x as tf.reshape takes it: numbers, and a tensor where a size is known only when it runs."""
    return [tf.shape(x)[i] if size is None else size for i, size in enumerate(x.shape)]


def over_units(value, like):
    """[C, U] → [C, 1, …, 1, U], to act on the units of [C, B, …, U]."""
    return tf.reshape(value, [-1] + [1] * (like.shape.rank - 2) + [value.shape[-1]])
