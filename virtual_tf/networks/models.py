"""Networks as tuples of layers, the private path beside the shared one, and their initial weights.

A model is a function (input_shape, num_classes, options) → tuple of layers. `register` makes it a value of --model;
Bayesian or deterministic, with or without a private path, under any algorithm, is then the library's business.

Each layer l of a client's network has a shared and a private path, joined by a gate g ≥ 0 per unit:

    u_l = act(φ_l · u_{l−1}),               u_0 = x
    h_l = act(θ_l · h_{l−1} + g_l ⊙ u_l),   h_0 = x

The server's network is the same with g = 0: no private path.
"""
import importlib.util
import itertools
import pathlib
import sys
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.random_streams import Stream
from virtual_tf.networks import layers

MODELS = {}


class Weights(NamedTuple):
    """Weights of a network by name: tensors or tfd.Normals [C, …]; gates are tensors [C, U]."""
    shared: dict
    private: dict = {}   # noqa: RUF012  (never changed in place)
    gates: dict = {}     # noqa: RUF012


class Network(NamedTuple):
    """Named layers for inputs of one shape."""
    layers: tuple        # of (name, layer)
    input_shape: tuple

    def shapes(self):
        """Shape of every weight: {'dense_1/kernel': (784, 100), …}"""
        return {f'{name}/{weight}': shape
                for name, layer, input_shape in self.walk()
                for weight, shape in layer.weight_shapes(input_shape).items()}

    def gate_shapes(self):
        """One gate for each unit of each layer that has weights: {'dense_1': (100,), …}"""
        return {name: layer.output_shape(input_shape)[-1:]
                for name, layer, input_shape in self.walk() if layer.weight_shapes(input_shape)}

    def walk(self):
        """(name, layer, input shape) from the first to the last."""
        shape = self.input_shape
        for name, layer in self.layers:
            yield name, layer, shape
            shape = layer.output_shape(shape)


def register(name):
    """Decorator: the function below it becomes --model=name."""
    def add(function):
        MODELS[name] = function
        return function
    return add


def check_input(name, x):
    """Refuses examples that a registered model cannot take: tokens are for an embedding, images for a convolution."""
    first = next(layer for layer in MODELS[name](x.shape[1:], 2) if not isinstance(layer, layers.Flatten))
    tokens = np.issubdtype(x.dtype, np.integer)
    if tokens != isinstance(first, layers.Embedding):
        raise VirtualTfError(f'model {name!r} does not take {"token sequences" if tokens else "numbers"}; '
                             + ('lstm does' if tokens else 'mlp does'))
    if isinstance(first, layers.Conv2D) and x.ndim != 4:
        raise VirtualTfError(f'model {name!r} takes images [height, width, channels], and an example of this data has '
                             f'shape {list(x.shape[1:])}; mlp takes any')


def load_plugin(path):
    """Runs a Python file that registers models."""
    path = pathlib.Path(path).expanduser()
    if not path.is_file():
        raise VirtualTfError(f'plugins: there is no file {path}; give the path of a Python file that registers a model')
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up by name.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)


def build(name, input_shape, num_classes, **options):
    """The Network of a registered model."""
    counts, named = {}, []
    for layer in MODELS[name](tuple(input_shape), num_classes, **options):
        kind = type(layer).__name__.lower()
        counts[kind] = counts.get(kind, 0) + 1
        named.append((f'{kind}_{counts[kind]}', layer))
    return Network(tuple(named), tuple(input_shape))


@register('mlp')
def mlp(input_shape, num_classes, hidden=(100, 100), **options):
    """The paper's perceptron: two hidden layers of 100 ReLU units, softmax at the output."""
    return (layers.Flatten(), *(layers.Dense(units, activation=tf.nn.relu, **options) for units in hidden),
            layers.Dense(num_classes, **options))


@register('conv')
def conv(input_shape, num_classes, filters=(32, 64), use_bias=False, estimator='local'):
    """The paper's convolutional network: 5×5 convolutions with max-pooling, then the perceptron."""
    images = ((layers.Conv2D(count, 5, activation=tf.nn.relu, use_bias=use_bias), layers.MaxPool())
              for count in filters)
    return (*itertools.chain(*images), *mlp(input_shape, num_classes, use_bias=use_bias, estimator=estimator))


@register('lstm')
def lstm(input_shape, num_classes, units=(100, 100), use_bias=False, estimator='local'):
    """The paper's next-character model: 8 dimensions of embedding, two LSTM layers of 100 units, softmax."""
    return (layers.Embedding(num_classes, 8), *(layers.LSTM(count) for count in units),
            layers.Dense(num_classes, use_bias=use_bias, estimator=estimator))


def logits(network, weights, x, stream=None):
    """[C, B, …, classes]; with a private path when the weights have one."""
    shared = private = x
    for name, layer in network.layers:
        lateral = 0.0
        if weights.private:
            private = layer.activation(layer.linear(_of_layer(weights.private, name), private, stream))
        shared = layer.linear(_of_layer(weights.shared, name), shared, stream)
        if name in weights.gates:
            lateral = layers.over_units(weights.gates[name], private) * private
        shared = layer.activation(shared + lateral)
    return shared


def _of_layer(weights, name):
    return {key.split('/')[1]: value for key, value in weights.items() if key.startswith(name + '/')}


def initial_means(network, keys, mean_init, mean_scale, dtype=tf.float32):
    """Means of all weights for each key: {name: [C, …]}"""
    stream = Stream(keys, dtype)
    return {f'{name}/{weight}': layer.initial_mean(weight, shape, stream.normal, mean_init, mean_scale)
            for name, layer, input_shape in network.walk()
            for weight, shape in layer.weight_shapes(input_shape).items()}


def initial_gates(network, clients, value):
    """Gates of all layers at one positive value: {layer: [C, U]}"""
    return {name: tf.fill([clients, *shape], value) for name, shape in network.gate_shapes().items()}
