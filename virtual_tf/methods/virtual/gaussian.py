"""Gaussians in natural parameters: products are sums, ratios are differences, powers are scalings (App. B).

    chi = mu / sigma²,  xi = 1 / sigma²,  density proportional to exp(chi·x − xi·x²/2)

A *belief* is a distribution (xi > 0). A *factor* is a ratio of beliefs, so its xi may be zero or negative.
Either over a whole network is a dict from weight name to NaturalGaussian; a leading axis [C, …] holds clients.
The algebra acts on any nest of NaturalGaussians.
"""
from typing import NamedTuple

import tensorflow as tf
import tensorflow_probability as tfp

from virtual_tf.core.client_axis import over_clients

tfd = tfp.distributions


class ImproperBeliefError(ValueError):
    """A Gaussian that has to be a distribution has a precision that is not positive and finite."""


class NaturalGaussian(NamedTuple):
    chi: tf.Tensor
    xi: tf.Tensor


class Moments(NamedTuple):
    """N(mean, scale²) as a nest of tensors, for loops and states; tfd.Normal is what layers and users get."""
    mean: tf.Tensor
    scale: tf.Tensor


def product(first, second):
    """App. B, product of densities up to normalisation."""
    return tf.nest.map_structure(tf.add, first, second)


def ratio(numerator, denominator):
    """App. B, ratio of densities up to normalisation; improper where the denominator is the sharper one."""
    return tf.nest.map_structure(tf.subtract, numerator, denominator)


def power(gaussian, exponent):
    """gaussian^exponent; the exponent is a scalar, one per client [C], or a nest of tensors like the gaussian's xi."""
    if isinstance(exponent, dict):
        return {name: NaturalGaussian(*(exponent[name] * value for value in gaussian[name])) for name in gaussian}
    return tf.nest.map_structure(lambda value: over_clients(exponent, value) * value, gaussian)


def identity(like):
    """The neutral element of the product: 1 everywhere."""
    return tf.nest.map_structure(tf.zeros_like, like)


def from_moments(mean, scale):
    """NaturalGaussian of N(mean, scale²)."""
    xi = 1.0 / tf.square(scale)
    return NaturalGaussian(mean * xi, xi)


def to_moments(belief):
    """Moments of a dict of NaturalGaussians that are known to be proper."""
    return {name: Moments(value.chi / value.xi, tf.math.rsqrt(value.xi)) for name, value in belief.items()}


def normals(moments):
    """tfd.Normals of a dict of Moments."""
    return {name: tfd.Normal(value.mean, value.scale) for name, value in moments.items()}


def to_normal(belief, name='belief'):
    """tfd.Normal of one proper NaturalGaussian or of a dict of them; an improper one is an error in eager mode."""
    if isinstance(belief, dict):
        return {key: to_normal(value, key) for key, value in belief.items()}
    if tf.executing_eagerly():
        improper = int(tf.reduce_sum(tf.cast(~is_proper(belief), tf.int32)))
        if improper:
            raise ImproperBeliefError(
                f'{name} has {improper} weights whose precision is not positive and finite, so it is no '
                'distribution; a factor may be like that, but a posterior, prior or client belief may not')
    return tfd.Normal(belief.chi / belief.xi, tf.math.rsqrt(belief.xi))


def is_proper(gaussian):
    """True for each weight at which the gaussian is a distribution."""
    return (gaussian.xi > 0) & tf.math.is_finite(gaussian.xi) & tf.math.is_finite(gaussian.chi)


def kl_divergence(first, second):
    """KL(first ‖ second) of two dicts of tfd.Normal [C, …], summed over all weights: [C]."""
    terms = [tfd.kl_divergence(first[name], second[name]) for name in first]
    return tf.add_n([tf.reduce_sum(term, axis=list(range(1, term.shape.rank))) for term in terms])


def signal_to_noise(normal):
    """|mu| / sigma of a tfd.Normal, weight by weight."""
    return tf.abs(normal.loc) / normal.scale
