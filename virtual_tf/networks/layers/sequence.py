"""Layers over sequences: embedding and LSTM, with one weight sample a batch of sequences (Fortunato et al. 2017)."""
import dataclasses

import tensorflow as tf

from virtual_tf.networks.layers.base import Layer, draw, over_units, sizes


@dataclasses.dataclass(frozen=True)
class Embedding(Layer):
    """Token ids [C, B, T] → vectors [C, B, T, D], Gaussian like any other weight (Vilnis and McCallum 2015)."""
    tokens: int
    units: int

    def weight_shapes(self, input_shape):
        return {'kernel': (self.tokens, self.units)}

    def output_shape(self, input_shape):
        return (*input_shape, self.units)

    def linear(self, weights, x, stream=None):
        return tf.gather(draw(weights['kernel'], stream), x, batch_dims=1)

    def initial_mean(self, name, shape, normal, mean_init, mean_scale):
        """A token is one row, whatever the number of tokens: unit variance gives the next layer a scale to work on."""
        return normal(shape)


@dataclasses.dataclass(frozen=True)
class LSTM(Layer):
    """Hidden states [C, B, T, U] of a long short-term memory; gates in the order input, forget, cell, output.

    Kernels and biases are Gaussian and shared alike. The biases of the forget gates start at 1.
    """
    units: int

    def weight_shapes(self, input_shape):
        return {'kernel': (input_shape[-1], 4 * self.units), 'recurrent': (self.units, 4 * self.units),
                'bias': (4 * self.units,)}

    def output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def linear(self, weights, x, stream=None):
        kernel, recurrent, bias = (draw(weights[name], stream) for name in ('kernel', 'recurrent', 'bias'))
        clients, batch, steps, features = sizes(x)
        inputs = tf.matmul(tf.reshape(x, [clients, batch * steps, features]), kernel)
        inputs = tf.reshape(inputs, [clients, batch, steps, 4 * self.units])
        inputs = inputs + over_units(bias, inputs)
        hidden = recur(tf.transpose(inputs, [2, 0, 1, 3]), recurrent)
        return tf.transpose(hidden, [1, 2, 0, 3])

    def initial_mean(self, name, shape, normal, mean_init, mean_scale):
        mean = super().initial_mean(name, shape, normal, mean_init, mean_scale)
        if name != 'bias':
            return mean
        forget = (tf.range(shape[0]) >= self.units) & (tf.range(shape[0]) < 2 * self.units)
        return mean + tf.cast(forget, mean.dtype)


@tf.custom_gradient
def recur(inputs, recurrent):
    """The recurrence alone, from zero states: [T, C, B, 4U], [C, U, 4U] → [T, C, B, U].

    The gradient is written out, because autodiff would add a weight-sized term at every time step, where one matmul
    over all of them does.
    """
    steps, clients, batch, width = sizes(inputs)
    units = width // 4
    zero = tf.zeros([clients, batch, units], inputs.dtype)

    def forward(t, hidden, cell, hiddens, cells, gates):
        i, f, g, o = tf.split(inputs[t] + tf.matmul(hidden, recurrent), 4, axis=-1)
        i, f, g, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)
        cell = f * cell + i * g
        hidden = o * tf.tanh(cell)
        return (t + 1, hidden, cell, hiddens.write(t, hidden), cells.write(t, cell),
                gates.write(t, tf.concat([i, f, g, o], axis=-1)))

    def array(size):
        return tf.TensorArray(inputs.dtype, steps, element_shape=[clients, inputs.shape[2], size])

    _, _, _, hiddens, cells, gates = tf.while_loop(
        lambda t, *_: t < steps, forward, (0, zero, zero, array(units), array(units), array(width)),
        maximum_iterations=steps)
    hiddens, cells, gates = hiddens.stack(), cells.stack(), gates.stack()

    def gradient(upstream):
        before = tf.concat([zero[tf.newaxis], cells[:-1]], axis=0)

        def backward(t, d_hidden, d_cell, d_inputs):
            i, f, g, o = tf.split(gates[t], 4, axis=-1)
            squashed = tf.tanh(cells[t])
            d_hidden = d_hidden + upstream[t]
            d_cell = d_cell + d_hidden * o * (1.0 - tf.square(squashed))
            d_gates = tf.concat([d_cell * g * i * (1.0 - i), d_cell * before[t] * f * (1.0 - f),
                                 d_cell * i * (1.0 - tf.square(g)), d_hidden * squashed * o * (1.0 - o)], axis=-1)
            return t - 1, tf.matmul(d_gates, recurrent, transpose_b=True), d_cell * f, d_inputs.write(t, d_gates)

        _, _, _, d_inputs = tf.while_loop(
            lambda t, *_: t >= 0, backward, (steps - 1, zero, zero, array(width)), maximum_iterations=steps)
        d_inputs = d_inputs.stack()
        previous = tf.concat([zero[tf.newaxis], hiddens[:-1]], axis=0)
        rows, d_rows = (tf.reshape(tf.transpose(value, [1, 0, 2, 3]), [clients, steps * batch, -1])
                        for value in (previous, d_inputs))
        return d_inputs, tf.matmul(rows, d_rows, transpose_a=True)

    return hiddens, gradient
