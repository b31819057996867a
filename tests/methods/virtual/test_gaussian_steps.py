import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from toys import full_batch, make_settings

from virtual_tf.core.random_streams import make_keys
from virtual_tf.methods import local_sgd
from virtual_tf.methods.virtual.gaussian import Moments, NaturalGaussian, from_moments
from virtual_tf.methods.virtual.gaussian_steps import MAX_FACTOR, gaussian_step, natural_scale
from virtual_tf.methods.virtual.method import virtual
from virtual_tf.networks import models


def new_precision(scale, of_likelihood, target_xi, weight, step):
    arguments = (tf.constant(value, tf.float64) for value in (scale, of_likelihood, target_xi, weight, step))
    return natural_scale(*arguments).numpy() ** -2.0


@given(scale=st.floats(1e-3, 10.0), slope=st.floats(-1e3, 1e3), target_xi=st.floats(1e-3, 1e6),
       weight=st.floats(1e-7, 1.0), step=st.floats(0.0, 1.0))
def test_the_step_keeps_every_precision_positive_and_within_its_factor(scale, slope, target_xi, weight, step):
    xi = scale ** -2.0
    c = step * (target_xi + slope / (scale * weight) - xi) / xi
    found = new_precision(scale, slope, target_xi, weight, step)
    assert found > 0
    factor = np.clip((1 + c / 2 + c ** 2 / 8) ** 2, 1 / MAX_FACTOR, MAX_FACTOR)
    np.testing.assert_allclose(found, xi * factor, rtol=1e-6)


def test_to_second_order_the_step_is_that_of_lin_schmidt_and_khan():
    # ξ + ρr + ρ²r²/(2ξ); what differs is of third order: an eighth when ρ is halved.
    scale, slope, target_xi, weight = 0.5, 3.0, 7.0, 1.0
    xi, r = 4.0, target_xi + slope / (scale * weight) - 4.0
    errors = [abs(new_precision(scale, slope, target_xi, weight, step)
                  - (xi + step * r + step ** 2 * r ** 2 / (2 * xi))) for step in (0.02, 0.01)]
    assert errors[0] > 0 and errors[0] / errors[1] == pytest.approx(8.0, rel=0.05)


def test_step_zero_leaves_the_scale_alone():
    assert new_precision(0.3, 5.0, 100.0, 1e-3, 0.0) == pytest.approx(0.3 ** -2.0, rel=1e-12)


@pytest.mark.parametrize('weight', [1.0, 0.1, 1e-3])
@pytest.mark.parametrize('curvature, target_xi', [(2.0, 1.0), (0.5, 300.0), (0.0, 7.0), (-0.1, 400.0)])
def test_on_a_quadratic_loss_the_rest_point_is_the_exact_posterior_precision(weight, curvature, target_xi):
    # E_q[h/2·(θ − a)²] = h/2·((μ − a)² + σ²), so ∂/∂σ = h·σ and the minimum of F has ξ = ξ_p + h/w.
    expected = target_xi + curvature / weight
    scale = tf.constant(0.5, tf.float64)
    for _ in range(600):
        scale = natural_scale(scale, curvature * scale, target_xi, weight, 0.1)
    if expected > 0:
        np.testing.assert_allclose(scale ** -2.0, expected, rtol=1e-9)
    else:
        assert scale > 1e3, 'no posterior exists: the precision falls as long as it is let'


def test_price_the_slope_by_the_scale_is_the_expected_curvature():
    """For ℓ = log(1 + e^θ) by Gauss–Hermite quadrature: (∂E_q[ℓ]/∂σ)/σ = E_q[ℓ''], finite differences against it."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    mean, scale, small = 0.4, 0.7, 1e-5

    def expected(function, scale):
        return weights @ function(mean + scale * nodes)

    def loss(theta):
        return np.logaddexp(0.0, theta)
    slope = (expected(loss, scale + small) - expected(loss, scale - small)) / (2 * small)
    curvature = expected(lambda t: np.exp(t) / (1 + np.exp(t)) ** 2, scale)
    np.testing.assert_allclose(slope / scale, curvature, rtol=1e-8)


@pytest.mark.parametrize('kl_weight', [1.0, 0.3, 0.01])
def test_a_visit_reaches_the_exact_posterior_of_a_conjugate_model(kl_weight):
    """x_n ~ N(θ, 1/τ): q ends at target · L^{1/β}, with χ = τΣx and ξ = τN of the likelihood, for every β."""
    generator = np.random.default_rng(1)
    clients, examples, noise_precision = 3, 5, 2.0
    x = generator.normal(size=(clients, examples, 4)).astype(np.float32)
    target = from_moments(*(tf.constant(value, tf.float32) for value in (
        generator.normal(size=(clients, 4)), generator.uniform(0.2, 1.0, (clients, 4)))))
    step_of = gaussian_step(make_settings(
        precision_update='natural', precision_step=0.1, client_lr=0.1, min_scale=1e-4, max_scale=10.0, init_scale=0.5))
    weight = tf.fill([clients], kl_weight / examples)

    def gradient(q, x, y, mask, step):
        # of the mean over the batch of τ/2·((μ − x)² + σ²)
        return (Moments(noise_precision * (q.mean - tf.reduce_mean(x, axis=1)), noise_precision * q.scale),
                [tf.ones([clients])] * 3)

    cohort = full_batch(x, np.zeros([clients, examples], np.int32), np.ones(clients, np.float32),
                        make_keys(0, ids=range(clients)), steps=500)
    start = Moments(tf.zeros([clients, 4]), tf.ones([clients, 4]))
    q, _ = local_sgd.sgd(gradient, lambda q, g, *shares: step_of(q, g, target, weight, *shares), start, cohort)
    expected = NaturalGaussian(target.chi + noise_precision * x.sum(axis=1) / kl_weight,
                               target.xi + noise_precision * examples / kl_weight)
    for found, exact in zip(from_moments(*q), expected):
        np.testing.assert_allclose(found, exact, rtol=2e-5, atol=1e-4)


def test_a_client_that_stands_still_keeps_mean_and_scale():
    step_of = gaussian_step(make_settings(precision_update='natural'))
    q = Moments(tf.constant([[1.0], [1.0]]), tf.constant([[0.1], [0.1]]))
    moved = step_of(q, Moments(tf.ones([2, 1]), tf.ones([2, 1])), from_moments(*q), tf.constant([0.1, 0.1]),
                    tf.constant([0.0, 1.0]), tf.ones(2))
    for old, new in zip(q, moved):
        assert new[0] == old[0] and new[1] != old[1]


@pytest.mark.parametrize('model, shape, tokens', [('conv', (8, 8, 1), 0), ('lstm', (5,), 7)])
def test_every_weight_of_every_layer_has_its_precision_trained(model, shape, tokens):
    """Convolution, embedding, LSTM: none is left out, and what the data say of a weight differs from layer to layer."""
    generator, options = np.random.default_rng(0), {'filters': (2, 2)} if model == 'conv' else {'units': (3, 3)}
    network = models.build(model, shape, tokens or 3, gaussian=True, use_bias=False, estimator='local', **options)
    settings = make_settings(precision_update='natural', precision_step=0.1, epochs=1, model=model)
    algorithm = virtual(network, settings)
    server, keys, weight = algorithm.init(0), make_keys(0, ids=range(2)), np.full(2, 0.5, np.float32)
    targets = (2, 4, *shape) if tokens else (2, 4)
    x = (generator.integers(0, tokens, (2, 4, *shape)).astype(np.int32) if tokens
         else generator.normal(size=(2, 4, *shape)).astype(np.float32))
    cohort = full_batch(x, generator.integers(0, 3, targets).astype(np.int32), weight, keys, steps=3)
    proposals, _, training = algorithm.client_update(server, algorithm.init_clients(server, weight, keys), cohort)
    assert np.all(training.accepted)
    for name, belief in proposals.deployed.items():
        moved = np.abs(np.log(np.asarray(belief.scale) / settings.init_scale))
        assert np.mean(moved > 1e-6) > 0.5, name
