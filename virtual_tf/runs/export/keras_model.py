"""A Keras 3 model of the mean network, in layers that come with Keras: it loads where this package is not.

A private path is a second branch; its gates are the kernel of an EinsumDense that multiplies unit by unit.
"""
import importlib

import tensorflow as tf

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.networks import layers

# What Keras calls the functions that models here use.
_ACTIVATIONS = {tf.nn.relu: 'relu', tf.nn.elu: 'elu', tf.nn.gelu: 'gelu', tf.nn.silu: 'silu',
                tf.nn.softplus: 'softplus', tf.tanh: 'tanh', tf.sigmoid: 'sigmoid', tf.identity: 'linear'}


def write(model, path, draws, seed):
    """A .keras file."""
    if draws:
        raise VirtualTfError(f'draws = {draws}, but a Keras file holds the mean network alone; --format=savedmodel or '
                             'tflite takes draws')
    build(model).save(path)


def build(model):
    """The keras.Model of a Model, from x [B, …] to probabilities."""
    keras, network, weights = importlib.import_module('keras'), model.parts.network, model.weights
    x = shared = private = keras.Input(network.input_shape, dtype=model.parts.signature().dtype.name, name='x')
    has_private = any(name.startswith('private/') for name in weights)
    pending = []     # (layer, its weights): Keras makes the variables when the whole is connected
    for name, layer in network.layers:
        who = f'layer {name!r} of model {model.parts.settings.model!r}'
        activation = _activation(who, layer)

        def through(value, prefix, name=name, layer=layer, who=who):
            made = _layer(keras, who, layer, (prefix + name).replace('/', '_'))
            pending.append((made, [weights[f'{prefix}{name}/{weight}'] for weight in _order(layer)]))
            return made(value)

        if has_private:
            private = keras.layers.Activation(activation)(through(private, 'private/'))
        shared = through(shared, '')
        if f'gates/{name}' in weights:
            axes = 'abcd'[:len(private.shape) - 1]
            gate = keras.layers.EinsumDense(f'{axes}u,u->{axes}u', private.shape[1:], name=f'gate_{name}')
            shared = keras.layers.Add()([shared, gate(private)])
            pending.append((gate, [weights[f'gates/{name}']]))
        shared = keras.layers.Activation(activation)(shared)
    made = keras.Model(x, keras.layers.Softmax(name='probabilities')(shared), name='mean_network')
    for layer, values in pending:
        layer.set_weights(values)
    return made


def _order(layer):
    """Names of a layer's weights, in the order in which Keras has them."""
    if isinstance(layer, layers.LSTM):
        return 'kernel', 'recurrent', 'bias'
    if isinstance(layer, layers.Embedding):
        return ('kernel',)
    if isinstance(layer, layers.Dense | layers.Conv2D):
        return ('kernel', 'bias') if layer.use_bias else ('kernel',)
    return ()


def _layer(keras, who, layer, name):
    """Keras's layer for one of ours."""
    makers = {
        layers.Dense: lambda: keras.layers.Dense(layer.units, use_bias=layer.use_bias, name=name),
        layers.Conv2D: lambda: keras.layers.Conv2D(layer.filters, layer.size, padding='same', use_bias=layer.use_bias,
                                                   name=name),
        layers.MaxPool: lambda: keras.layers.MaxPooling2D(layer.size, name=name),
        layers.Flatten: lambda: keras.layers.Flatten(name=name),
        layers.Embedding: lambda: keras.layers.Embedding(layer.tokens, layer.units, name=name),
        layers.LSTM: lambda: keras.layers.LSTM(layer.units, return_sequences=True, name=name)}
    if type(layer) not in makers:
        raise VirtualTfError(f'{who} is a {type(layer).__name__}, which Keras does not come with; --format=savedmodel '
                             'holds any layer')
    return makers[type(layer)]()


def _activation(who, layer):
    if layer.activation not in _ACTIVATIONS:
        named = getattr(layer.activation, '__name__', repr(layer.activation))
        raise VirtualTfError(f'{who} has the activation {named}, which has no name in Keras here; --format=savedmodel '
                             'holds any')
    return _ACTIVATIONS[layer.activation]
