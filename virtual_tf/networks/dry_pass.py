"""A pass of zeros through a network when it is built: what a layer of a user's own does wrong becomes one sentence.

It is traced and never computed. A layer of the user's own is called as training and testing call it, with a stream
and without; ours, which have tests, only to see that they can take what they are given.
"""
import traceback

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from virtual_tf.core import plugins
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.networks import layers

tfd = tfp.distributions
_CLIENTS, _EXAMPLES = 2, 3     # not the same, so that a layer that takes one for the other is found


class _Zeros:
    """A random_streams.Stream that is quick to trace."""

    def normal(self, shape):
        return tf.zeros([_CLIENTS, *shape])


def check(model, network, num_classes, target_shape=None, gaussian=False):
    """Refuses a network whose layers do not what they say, or that does not end in a number for each class.

    target_shape: that of an example's y, () for one label; None if it is not known, and then the last axis counts.
    gaussian: with tfd.Normals for weights.
    """
    def trace():
        x = tf.zeros([_CLIENTS, _EXAMPLES, *network.input_shape],
                     tf.int32 if takes_tokens(layer for _, layer in network.layers) else tf.float32)
        for name, layer in network.layers:
            x = _through(f'layer {name!r} of model {model!r}', layer, x, gaussian)
        return x

    found = tf.function(trace, autograph=False).get_concrete_function().output_shapes.as_list()[2:]
    wanted = [*(found[:-1] if target_shape is None else target_shape), num_classes]
    if found != wanted:
        raise VirtualTfError(f'layer {network.layers[-1][0]!r} of model {model!r} is the last and gives {found} for an '
                             f'example, where this data needs {wanted}; give it num_classes units')


def takes_tokens(found):
    """Whether layers begin with an embedding, so that their input is ids."""
    return isinstance(next((layer for layer in found if not isinstance(layer, layers.Flatten)), None), layers.Embedding)


def attempt(who, function, *arguments, **options):
    """What a user's function gives, or the sentence that says who raised what, and where."""
    try:
        return function(*arguments, **options)
    except VirtualTfError:
        raise
    except Exception as error:
        # The first frame is this function's, the second that of the user's.
        frames = traceback.extract_tb(error.__traceback__)
        said = plugins.told(error, frames[1].filename) if len(frames) > 1 else f'{type(error).__name__}: {error}'
        raise VirtualTfError(f'{who} raised an error ({said}); correct it') from error


def _through(who, layer, x, gaussian):
    """The layer's output for x, after everything about it has been looked at."""
    input_shape, ours = tuple(x.shape[2:]), type(layer).__module__.startswith(layers.__name__)
    shapes = attempt(f'weight_shapes of {who}', layer.weight_shapes, input_shape)
    if not isinstance(shapes, dict) or not all(
            isinstance(name, str) and '/' not in name and _is_shape(shape) for name, shape in shapes.items()):
        raise VirtualTfError(f'weight_shapes of {who} gives {shapes!r}; it must give a dict of names and shapes, such '
                             "as {'kernel': (5, 3)}, and {} without weights")
    weights = {name: tf.zeros([_CLIENTS, *shape]) for name, shape in shapes.items()}
    if not ours:
        weights = {name: _weight(who, layer, name, shape, gaussian) for name, shape in shapes.items()}
    promised = attempt(f'output_shape of {who}', layer.output_shape, input_shape)
    if not _is_shape(promised):
        raise VirtualTfError(f'output_shape of {who} gives {promised!r} for an input of shape {input_shape}; it must '
                             'give a tuple of numbers from 1 on')
    for stream in (None,) if ours else (_Zeros(), None):
        given = attempt(f'linear of {who}', layer.linear, weights, x, stream)
        _check_shape(f'linear of {who}', given, promised, 'output_shape says')
    given = attempt(f'activation of {who}', layer.activation, given)
    _check_shape(f'activation of {who}', given, promised, 'its input has')
    return given


def _weight(who, layer, name, shape, gaussian):
    """A weight as the layer initialises it, with zeros for random numbers."""
    what = f'initial_mean of {name!r} of {who}'
    mean = attempt(what, layer.initial_mean, name, shape, _Zeros().normal, 'normal', 1.0)
    if _shape_of(mean) != (_CLIENTS, *shape):
        raise VirtualTfError(f'{what} gives {_told_shape(mean)} where it must be {[_CLIENTS, *shape]}, clients first; '
                             'make it of what normal(shape) gives')
    return tfd.Normal(mean, tf.ones_like(mean)) if gaussian else mean


def _check_shape(what, value, promised, source):
    expected = [_CLIENTS, _EXAMPLES, *promised]
    if _shape_of(value) != tuple(expected):
        raise VirtualTfError(f'{what} gives {_told_shape(value)} where {source} {expected}, clients and examples '
                             'first; make them agree')


def _is_shape(value):
    return isinstance(value, tuple | list | tf.TensorShape) and all(
        isinstance(size, int | np.integer) and size > 0 for size in value)


def _shape_of(value):
    return tuple(value.shape) if tf.is_tensor(value) and value.shape.rank is not None else None


def _told_shape(value):
    return f'the shape {list(_shape_of(value))}' if _shape_of(value) is not None else f'{value!r:.100}'
