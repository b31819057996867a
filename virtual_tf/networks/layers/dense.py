"""The dense layer, by local reparameterisation or by weight sampling."""
import dataclasses

import tensorflow as tf

from virtual_tf.networks.layers.base import Layer, draw, is_gaussian, over_units, sizes

_TINY_VARIANCE = 1e-20


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
    rows = tf.reshape(x, [x.shape[0], -1, x.shape[-1]])
    outputs = tf.reshape(tf.matmul(rows, kernel), [*sizes(x)[:-1], kernel.shape[-1]])
    return outputs if bias is None else outputs + over_units(draw(bias, stream), outputs)


@dataclasses.dataclass(frozen=True)
class Dense(Layer):
    units: int
    use_bias: bool = False
    estimator: str = 'local'

    @property
    def wants_variance(self):
        return self.estimator == 'local'

    def weight_shapes(self, input_shape):
        shapes = {'kernel': (input_shape[-1], self.units)}
        return shapes | {'bias': (self.units,)} if self.use_bias else shapes

    def output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def linear(self, weights, x, stream=None):
        return dense(x, weights['kernel'], weights.get('bias'), stream, self.estimator)
