"""A network as named layers, the private path beside the shared one, and its initial weights.

Each layer l of a client's network has a shared and a private path, joined by a gate g ≥ 0 per unit:

    u_l = act(φ_l · u_{l−1}),               u_0 = x
    h_l = act(θ_l · h_{l−1} + g_l ⊙ u_l),   h_0 = x

The server's network is the same with g = 0: no private path.
"""
from typing import NamedTuple

import tensorflow as tf

from virtual_tf.core.random_streams import Stream
from virtual_tf.networks import layers


class Weights(NamedTuple):
    """Weights of a network by name: tensors or tfd.Normals [C, …]; gates are tensors [C, U]."""
    shared: dict
    private: dict
    gates: dict


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

    def num_classes(self):
        """Of what it gives."""
        *_, (_, last, shape) = self.walk()
        return last.output_shape(shape)[-1]

    def walk(self):
        """(name, layer, input shape) from the first to the last."""
        shape = self.input_shape
        for name, layer in self.layers:
            yield name, layer, shape
            shape = layer.output_shape(shape)


def without_private(shared):
    """The Weights of a network that has the shared path alone."""
    return Weights(shared, {}, {})


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
