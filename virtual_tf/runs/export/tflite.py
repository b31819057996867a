"""TensorFlow Lite: the network at its mean weights, or an ensemble of networks that were drawn once and for all.

It takes any number of examples, but one at a time for a recurrent network: its lists need to know the number.
"""
import re

import tensorflow as tf

from virtual_tf.core import random_streams
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.networks import gated, layers, uncertainty


def write(model, path, draws, seed):
    """A .tflite file; with draws > 0 it holds so many networks, those that predict(x, draws, seed) averages."""
    parts, weights = model.parts, model.beliefs
    function = _ensemble(parts, weights, draws, seed) if draws else lambda x: {
        'probabilities': tf.exp(parts.at_means(weights, x))}
    batch = 1 if _is_recurrent(parts.network) else None
    concrete = tf.function(function, autograph=False).get_concrete_function(parts.signature(batch))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete], tf.Module())
    try:
        converted = converter.convert()
    except Exception as error:
        found = sorted({*re.findall(r"'?tf\.(\w+)'? op", str(error))})
        raise VirtualTfError(f'TensorFlow Lite has no {", ".join(found) or str(error)[:200]}, which model '
                             f'{parts.settings.model!r} needs; --format=savedmodel holds it') from error
    path.write_bytes(converted)


def _is_recurrent(network):
    """Whether there is a loop over time."""
    return any(isinstance(layer, layers.LSTM) for _, layer in network.layers)


def _ensemble(parts, weights, draws, seed):
    """The networks of an ensemble lie on the axis of clients."""
    keys = random_streams.fold_in(tf.constant([[seed, 0]] * draws, tf.uint32), tf.range(draws))
    drawn = tf.nest.map_structure(lambda value: tf.broadcast_to(value, [draws, *value.shape[1:]]),
                                  uncertainty.draw_network(weights, keys))

    def predict(x):
        log_probabilities = tf.nn.log_softmax(gated.logits(parts.network, drawn, tf.stack([x] * draws)))
        probabilities = tf.reduce_mean(tf.exp(log_probabilities), axis=0)
        log_mean = tf.math.log(probabilities)
        mean_entropy = tf.reduce_mean(uncertainty.entropy(log_probabilities), axis=0)
        return {'probabilities': probabilities, 'entropy': uncertainty.entropy(log_mean),
                'mutual_information': uncertainty.mutual_information(log_mean, mean_entropy)}

    return predict
