"""Models by name. A model is a function (input_shape, num_classes, **options) → tuple of layers.

`register` makes it a value of --model; Bayesian or deterministic, with or without a private path, under any method, is
then the library's business.
"""
import inspect
import itertools

import numpy as np
import tensorflow as tf

from virtual_tf.core.errors import VirtualTfError, unknown
from virtual_tf.networks import dry_pass, layers
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
    found = _layers(name, x.shape[1:], 2)
    tokens = np.issubdtype(x.dtype, np.integer)
    if tokens != dry_pass.takes_tokens(found):
        raise VirtualTfError(f'model {name!r} does not take {"token sequences" if tokens else "numbers"}; '
                             + ('lstm does' if tokens else 'mlp does'))
    if isinstance(found[0], layers.Conv2D) and x.ndim != 4:
        raise VirtualTfError(f'model {name!r} takes images [height, width, channels], and an example of this data has '
                             f'shape {list(x.shape[1:])}; mlp takes any')


def build(name, input_shape, num_classes, target_shape=None, gaussian=False, **options):
    """The Network of a registered model, after a dry pass (which has target_shape and gaussian)."""
    counts, named = {}, []
    for layer in _layers(name, tuple(input_shape), num_classes, **options):
        kind = type(layer).__name__.lower()
        counts[kind] = counts.get(kind, 0) + 1
        named.append((f'{kind}_{counts[kind]}', layer))
    network = Network(tuple(named), tuple(input_shape))
    dry_pass.check(name, network, num_classes, target_shape, gaussian)
    return network


def _layers(name, input_shape, num_classes, **options):
    """What the function of a model gives, if that is layers."""
    function = find(name)
    try:
        inspect.signature(function).bind(input_shape, num_classes, **options)
    except TypeError as error:
        raise VirtualTfError(f'the function of model {name!r} cannot be called ({error}); let it take (input_shape, '
                             'num_classes, **options)') from error
    found = dry_pass.attempt(f'the function of model {name!r}', function, input_shape, num_classes, **options)
    several = isinstance(found, tuple | list)
    wrong = [layer for layer in found if not isinstance(layer, layers.Layer)] if several else [found]
    if wrong or not found:
        raise VirtualTfError(f'the function of model {name!r} gives {(wrong or [found])[0]!r:.100} where layers '
                             'belong; let it return a tuple of them, such as (Dense(num_classes, **options),)')
    return found


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
