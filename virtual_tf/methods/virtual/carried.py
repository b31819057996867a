"""How a compiled loop carries a Gaussian from step to step: as (μ, σ²), since σ² is what layers multiply by.

A pass over the weights that squares σ takes an eighth of a step. Nothing else changes, to the bit: σ = √σ² is exact, as
in binary floating point the rounded root of a rounded square is the number that was squared.
"""
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
import tensorflow_probability as tfp

from virtual_tf.methods.virtual.gaussian import Moments

tfd = tfp.distributions


class MeanVariance(NamedTuple):
    mean: tf.Tensor
    variance: tf.Tensor


class CarriedNormal(tfd.Normal):
    """N(μ, σ²) whose variance is at hand; its derivative is that of σ·σ."""

    def __init__(self, loc, scale, squared_scale):
        super().__init__(loc, scale)
        # What copies and slices are made of.
        self._parameters = self._no_dependency({'loc': loc, 'scale': scale, 'squared_scale': squared_scale})
        self.squared_scale = squared_scale

    @classmethod
    def _parameter_properties(cls, dtype, num_classes=None):
        return super()._parameter_properties(dtype) | {'squared_scale': tfp.util.ParameterProperties()}

    def _variance(self):
        return _square(self.scale, self.squared_scale)


class Carrier(NamedTuple):
    """Maps for one weight."""
    pack: Callable      # parameters of the coordinates → what the loop carries
    unpack: Callable    # what the loop carries → parameters
    normal: Callable    # Moments, what the loop carries → tfd.Normal


BY_VARIANCE = Carrier(
    pack=lambda moments: MeanVariance(moments.mean, tf.square(moments.scale)),
    unpack=lambda carried: Moments(carried.mean, tf.sqrt(carried.variance)),
    normal=lambda moments, carried: CarriedNormal(*moments, carried.variance))
AS_IT_IS = Carrier(
    pack=lambda parameters: parameters, unpack=lambda carried: carried,
    normal=lambda moments, carried: tfd.Normal(*moments))


def carriers(network, settings):
    """{weight: Carrier}: by variance what would be squared in a pass of its own.

    XLA fuses the root into the step, a graph does not; and layers that draw their weights need σ itself.
    """
    fused = settings.compile == 'xla' and settings.parameterisation == 'mean_scale'
    return {f'{name}/{weight}': BY_VARIANCE if fused and layer.wants_variance else AS_IT_IS
            for name, layer, shape in network.walk() for weight in layer.weight_shapes(shape)}


@tf.custom_gradient
def _square(scale, variance):
    return variance, lambda upstream: (2.0 * scale * upstream, None)
