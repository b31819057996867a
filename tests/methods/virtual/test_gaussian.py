import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from hypothesis import given, settings
from hypothesis import strategies as st

from virtual_tf.methods.virtual import gaussian
from virtual_tf.methods.virtual.gaussian import NaturalGaussian

tfd = tfp.distributions

MEANS = st.floats(-3.0, 3.0)
SCALES = st.floats(0.1, 3.0)


def natural(mean, scale):
    return gaussian.from_moments(tf.constant(mean, tf.float64), tf.constant(scale, tf.float64))


@settings(max_examples=30, deadline=None)
@given(MEANS, SCALES, MEANS, SCALES)
def test_a_product_has_the_moments_of_appendix_b(mean_1, scale_1, mean_2, scale_2):
    variance = 1 / (1 / scale_1 ** 2 + 1 / scale_2 ** 2)
    mean = variance * (mean_1 / scale_1 ** 2 + mean_2 / scale_2 ** 2)
    normal = gaussian.to_normal(gaussian.product(natural(mean_1, scale_1), natural(mean_2, scale_2)))
    np.testing.assert_allclose([normal.loc, normal.scale ** 2], [mean, variance], rtol=1e-9, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(MEANS, st.floats(0.1, 1.0), MEANS, st.floats(1.2, 3.0))
def test_a_ratio_by_a_wider_gaussian_has_the_moments_of_appendix_b(mean_1, scale_1, mean_2, scale_2):
    variance = 1 / (1 / scale_1 ** 2 - 1 / scale_2 ** 2)
    mean = variance * (mean_1 / scale_1 ** 2 - mean_2 / scale_2 ** 2)
    normal = gaussian.to_normal(gaussian.ratio(natural(mean_1, scale_1), natural(mean_2, scale_2)))
    np.testing.assert_allclose([normal.loc, normal.scale ** 2], [mean, variance], rtol=1e-9, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(MEANS, SCALES, st.floats(0.1, 5.0))
def test_a_power_scales_the_log_density(mean, scale, exponent):
    powered = gaussian.to_normal(gaussian.power(natural(mean, scale), exponent))
    x = np.linspace(-2.0, 2.0, 5)
    # Up to a constant, so differences between points are compared.
    expected = exponent * np.diff(tfd.Normal(np.float64(mean), np.float64(scale)).log_prob(x))
    np.testing.assert_allclose(np.diff(powered.log_prob(x)), expected, rtol=1e-7, atol=1e-9)


def test_ratio_undoes_product_and_the_identity_changes_nothing():
    first = {'w': natural([0.5, -1.0], [0.2, 3.0]), 'b': natural([2.0], [1.0])}
    second = {'w': natural([1.5, 0.3], [1.0, 0.5]), 'b': natural([0.0], [0.1])}
    there_and_back = gaussian.ratio(gaussian.product(first, second), second)
    unchanged = gaussian.product(first, gaussian.identity(first))
    for name in first:
        np.testing.assert_allclose(there_and_back[name], first[name], rtol=1e-12)
        assert np.array_equal(unchanged[name], first[name])


def test_a_power_takes_one_exponent_for_each_client_or_each_weight():
    value = {'w': NaturalGaussian(tf.ones([2, 3]), 2.0 * tf.ones([2, 3]))}
    by_client = gaussian.power(value, tf.constant([2.0, 3.0]))['w']
    # [C] acts on the leading axis: rows 2·1 and 3·1.
    assert np.array_equal(by_client.chi, [[2.0] * 3, [3.0] * 3])
    by_weight = gaussian.power(value, {'w': tf.constant([1.0, 0.5, 0.0])})['w']
    # […] without a client axis acts on the weights: columns 2·1, 2·½, 2·0.
    assert np.array_equal(by_weight.xi, [[2.0, 1.0, 0.0]] * 2)


def test_moments_and_normals_are_read_back():
    mean, scale = tf.constant([0.3, -2.0], tf.float64), tf.constant([0.01, 5.0], tf.float64)
    belief = {'w': gaussian.from_moments(mean, scale)}
    for back in (gaussian.to_moments(belief)['w'], gaussian.to_normal(belief)['w'].parameters.values()):
        back_mean, back_scale = list(back)[:2]
        np.testing.assert_allclose(back_mean, mean, rtol=1e-12)
        np.testing.assert_allclose(back_scale, scale, rtol=1e-12)
    normal = gaussian.normals(gaussian.to_moments(belief))['w']
    np.testing.assert_allclose(normal.stddev(), scale, rtol=1e-12)


@pytest.mark.parametrize('chi, xi', [(1.0, 0.0), (1.0, -2.0), (1.0, np.inf), (1.0, np.nan), (np.nan, 1.0)])
def test_an_improper_belief_is_an_error_that_names_it_and_counts(chi, xi):
    belief = {'dense_1/kernel': NaturalGaussian(tf.constant([0.0, chi]), tf.constant([1.0, xi]))}
    with pytest.raises(gaussian.ImproperBeliefError, match=r'dense_1/kernel has 1 weights'):
        gaussian.to_normal(belief)


def test_an_improper_factor_is_legal():
    sharp, wide = natural(0.0, 0.5), natural(1.0, 2.0)
    factor = gaussian.ratio(wide, sharp)
    # 1/4 − 4
    assert float(factor.xi) == -3.75
    assert not gaussian.is_proper(factor)
    assert gaussian.is_proper(gaussian.product(factor, sharp))


def test_kl_is_the_closed_form_summed_over_weights_client_by_client():
    generator = np.random.default_rng(0)
    (m1, m2), (s1, s2) = generator.normal(size=(2, 2, 4)), generator.uniform(0.5, 2.0, size=(2, 2, 4))
    # KL(N(m1, s1²) ‖ N(m2, s2²)) = log(s2/s1) + (s1² + (m1 − m2)²)/(2 s2²) − 1/2
    expected = (np.log(s2 / s1) + (s1 ** 2 + (m1 - m2) ** 2) / (2 * s2 ** 2) - 0.5).sum(axis=1)
    first = {'a': tfd.Normal(m1[:, :1], s1[:, :1]), 'b': tfd.Normal(m1[:, 1:], s1[:, 1:])}
    second = {'a': tfd.Normal(m2[:, :1], s2[:, :1]), 'b': tfd.Normal(m2[:, 1:], s2[:, 1:])}
    np.testing.assert_allclose(gaussian.kl_divergence(first, second), expected, rtol=1e-12)


def test_signal_to_noise_is_the_mean_in_standard_deviations():
    assert np.array_equal(gaussian.signal_to_noise(tfd.Normal([-3.0, 0.0], [1.5, 2.0])), [2.0, 0.0])
