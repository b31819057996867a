"""The coordinates in which SGD moves a Gaussian.

`mean_scale` moves μ and σ. `natural`, which the authors' code uses, moves χ and ξ: a step of η in χ moves μ by η/ξ²,
so learning rates there are of the order of ξ² times those in mean space.
"""
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from virtual_tf.methods.virtual.gaussian import Moments, NaturalGaussian, from_moments


class Coordinates(NamedTuple):
    """Maps for one weight."""
    encode: Callable     # Moments → parameters
    decode: Callable     # parameters → Moments
    pull_back: Callable  # parameters, gradient as Moments → gradient in these coordinates
    clamp: Callable      # parameters, smallest and largest scale → parameters
    are_moments: bool    # whether a step moves μ and σ themselves


def _natural_pull_back(parameters, gradient):
    """Chain rule through μ = χ/ξ and σ = ξ^(−1/2)."""
    chi, xi = parameters
    return NaturalGaussian(gradient.mean / xi,
                           -gradient.mean * chi / tf.square(xi) - 0.5 * gradient.scale * tf.pow(xi, -1.5))


COORDINATES = {
    'mean_scale': Coordinates(
        encode=lambda moments: moments,
        decode=lambda parameters: parameters,
        pull_back=lambda parameters, gradient: gradient,
        clamp=lambda parameters, low, high: Moments(parameters.mean, tf.clip_by_value(parameters.scale, low, high)),
        are_moments=True),
    'natural': Coordinates(
        encode=lambda moments: from_moments(*moments),
        decode=lambda parameters: Moments(parameters.chi / parameters.xi, tf.math.rsqrt(parameters.xi)),
        pull_back=_natural_pull_back,
        clamp=lambda parameters, low, high: NaturalGaussian(
            parameters.chi, tf.clip_by_value(parameters.xi, high ** -2.0, low ** -2.0)),
        are_moments=False),
}
