"""Layers over images: convolution, pooling, flattening."""
import dataclasses

import numpy as np
import tensorflow as tf

from virtual_tf.networks.layers.base import Layer, draw, over_units, sizes


def conv2d(x, kernel, bias=None, stream=None):
    """Each client's images with one sample of its own kernel: [C, B, H, W, I], [C, k, k, I, O] → [C, B, H, W, O].

    One convolution a client: grouped convolutions and patches with batched matmuls were slower (docs/lab-notes.md).
    """
    kernel = draw(kernel, stream)
    outputs = tf.stack([tf.nn.conv2d(images, own, 1, 'SAME') for images, own in zip(tf.unstack(x), tf.unstack(kernel))])
    return outputs if bias is None else outputs + over_units(draw(bias, stream), outputs)


@dataclasses.dataclass(frozen=True)
class Conv2D(Layer):
    """Stride 1, zero padding."""
    filters: int
    size: int
    use_bias: bool = False

    def weight_shapes(self, input_shape):
        shapes = {'kernel': (self.size, self.size, input_shape[-1], self.filters)}
        return shapes | {'bias': (self.filters,)} if self.use_bias else shapes

    def output_shape(self, input_shape):
        return (*input_shape[:-1], self.filters)

    def linear(self, weights, x, stream=None):
        return conv2d(x, weights['kernel'], weights.get('bias'), stream)


@dataclasses.dataclass(frozen=True)
class MaxPool(Layer):
    """Largest of size × size neighbours; rows and columns that do not fill a window are left out."""
    size: int = 2

    def output_shape(self, input_shape):
        height, width, channels = input_shape
        return (height // self.size, width // self.size, channels)

    def linear(self, weights, x, stream=None):
        pooled = tf.nn.max_pool2d(tf.reshape(x, [-1, *x.shape[2:]]), self.size, self.size, 'VALID')
        return tf.reshape(pooled, [*sizes(x)[:2], *pooled.shape[1:]])


@dataclasses.dataclass(frozen=True)
class Flatten(Layer):
    """[C, B, …] → [C, B, D]"""

    def output_shape(self, input_shape):
        return (int(np.prod(input_shape)),)

    def linear(self, weights, x, stream=None):
        return tf.reshape(x, [*sizes(x)[:2], *self.output_shape(x.shape[2:])])
