"""Models by name. A model is a function (input_shape, num_classes, **options) → tuple of layers.

`register` makes it a value of --model; Bayesian or deterministic, with or without a private path, under any method, is
then the library's business.
"""
import itertools

import numpy as np
import tensorflow as tf

from virtual_tf.core.errors import VirtualTfError, unknown
from virtual_tf.networks import layers
from virtual_tf.networks.gated import Network

MODELS = {}
# Which compiler runs the client loop faster, by measurement (BUILD_NOTES.md); the others have none.
FASTER_COMPILER = {'mlp': 'xla'}


def register(name):
    """Decorator: the function below it becomes --model=name."""
    def add(function):
        if name in MODELS:
            raise VirtualTfError(f'model {name!r} is there already; register yours under another name')
        MODELS[name] = function
        return function
    return add


def find(name):
    """The function of a registered model."""
    if name not in MODELS:
        raise unknown('model', name, MODELS)
    return MODELS[name]


def check_input(name, x):
    """Refuses examples that a registered model cannot take: tokens are for an embedding, images for a convolution."""
    first = next(layer for layer in find(name)(x.shape[1:], 2) if not isinstance(layer, layers.Flatten))
    tokens = np.issubdtype(x.dtype, np.integer)
    if tokens != isinstance(first, layers.Embedding):
        raise VirtualTfError(f'model {name!r} does not take {"token sequences" if tokens else "numbers"}; '
                             + ('lstm does' if tokens else 'mlp does'))
    if isinstance(first, layers.Conv2D) and x.ndim != 4:
        raise VirtualTfError(f'model {name!r} takes images [height, width, channels], and an example of this data has '
                             f'shape {list(x.shape[1:])}; mlp takes any')


def build(name, input_shape, num_classes, **options):
    """The Network of a registered model."""
    counts, named = {}, []
    for layer in find(name)(tuple(input_shape), num_classes, **options):
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
