import numpy as np
import pytest
import tensorflow as tf

from virtual_tf.methods.virtual.coordinates import COORDINATES
from virtual_tf.methods.virtual.gaussian import Moments

BOTH = pytest.mark.parametrize('coordinates', COORDINATES.values(), ids=COORDINATES)


def random_moments(seed=0):
    generator = np.random.default_rng(seed)
    return Moments(tf.constant(generator.normal(size=(2, 3))), tf.constant(generator.uniform(0.1, 2.0, size=(2, 3))))


@BOTH
def test_decode_undoes_encode(coordinates):
    moments = random_moments()
    np.testing.assert_allclose(coordinates.decode(coordinates.encode(moments)), moments, rtol=1e-12)


@BOTH
def test_pull_back_is_the_chain_rule_of_decode(coordinates):
    parameters = coordinates.encode(random_moments())
    upstream = random_moments(seed=1)
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        moments = coordinates.decode(parameters)
        # A function whose gradient with respect to (μ, σ) is `upstream`.
        value = tf.reduce_sum(upstream.mean * moments.mean) + tf.reduce_sum(upstream.scale * moments.scale)
    expected = tape.gradient(value, parameters)
    pulled = coordinates.pull_back(parameters, upstream)
    assert type(pulled) is type(parameters)
    np.testing.assert_allclose(pulled, expected, rtol=1e-10)


@BOTH
def test_clamp_limits_the_scale_and_leaves_what_is_legal(coordinates):
    moments = Moments(tf.constant([1.0, 2.0, 3.0], tf.float64), tf.constant([0.01, 0.5, 9.0], tf.float64))
    parameters = coordinates.encode(moments)
    clamped = coordinates.clamp(parameters, 0.1, 2.0)
    np.testing.assert_allclose(coordinates.decode(clamped).scale, [0.1, 0.5, 2.0], rtol=1e-12)
    for before, after in zip(parameters, clamped):
        assert before[1] == after[1]


def test_a_step_in_chi_moves_the_mean_by_the_square_of_the_precision_less():
    natural = COORDINATES['natural']
    parameters = natural.encode(Moments(tf.constant([0.5], tf.float64), tf.constant([0.2], tf.float64)))
    pulled = natural.pull_back(parameters, Moments(tf.ones([1], tf.float64), tf.zeros([1], tf.float64)))
    # ∂L/∂χ = (∂L/∂μ)/ξ, and a step of it in χ moves μ = χ/ξ by (∂L/∂μ)/ξ²; ξ = 1/0.2² = 25.
    moved = natural.decode(parameters._replace(chi=parameters.chi - pulled.chi))
    np.testing.assert_allclose(moved.mean - 0.5, [-1 / 25 ** 2], rtol=1e-9)
