import functools

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from toys import full_batch, make_network, make_settings

from virtual_tf.core.random_streams import Stream, fold_in, make_keys
from virtual_tf.methods.virtual import free_energy, gaussian
from virtual_tf.methods.virtual.gaussian import Moments, NaturalGaussian
from virtual_tf.methods.virtual.local_inference import Private, minimise_free_energy
from virtual_tf.networks import gated, likelihood

tfd = tfp.distributions

CLIENTS, EXAMPLES = 2, 6
# A power of two, so that its float32 is the same number: the step is divided by it to get the gradient back.
RATE = 2.0 ** -12


def doubles(generator, shape, low=None, high=None):
    return tf.constant(generator.normal(size=shape) if low is None else generator.uniform(low, high, size=shape))


class Problem:
    """Random beliefs, targets and data of two clients with a tiny network, in float64."""

    def __init__(self, private, estimator='local'):
        generator = np.random.default_rng(0)
        self.network = make_network(hidden=(3,), estimator=estimator)
        self.settings = make_settings(private=private, client_lr=RATE, kl_weight=0.7, max_scale=10.0)
        self.x = doubles(generator, (CLIENTS, EXAMPLES, 3))
        self.y = tf.constant(generator.integers(0, 2, (CLIENTS, EXAMPLES)), tf.int32)
        self.cohort = full_batch(self.x, self.y, np.full(CLIENTS, 0.5), make_keys(0, ids=range(CLIENTS)))

        def moments(lead):
            return {name: Moments(doubles(generator, (lead, *shape)), doubles(generator, (lead, *shape), 0.2, 1.0))
                    for name, shape in self.network.shapes().items()}

        self.q, self.target, self.prior = moments(CLIENTS), moments(CLIENTS), moments(1)
        self.private = Private({}, {}) if private == 'none' else Private(moments(CLIENTS), {
            name: doubles(generator, (CLIENTS, *shape), 0.2, 1.0)
            for name, shape in self.network.gate_shapes().items()})

    def gradient(self, target=None):
        """The gradient in one SGD step of the library, with its implicit part undone: shared, private, gates."""
        target = target or {name: gaussian.from_moments(*value) for name, value in self.target.items()}
        prior = {name: gaussian.from_moments(*value) for name, value in self.prior.items()}
        q, private, _ = minimise_free_energy(
            self.network, self.settings, self.q, self.private, target, prior, self.cohort)
        start = (self.q, self.private.weights, self.private.gates)
        shared, own, gates = tf.nest.map_structure(
            lambda a, b: (a - b) / RATE, start, (q, private.weights, private.gates))
        return self.explicit(shared, self.q, target), self.explicit(own, self.private.weights, prior), gates

    def explicit(self, steps, beliefs, targets):
        stiffness = RATE * self.settings.kl_weight / EXAMPLES
        return {name: Moments(step.mean * (1 + stiffness * targets[name].xi),
                              step.scale * (1 + stiffness * (targets[name].xi + beliefs[name].scale ** -2)))
                for name, step in steps.items()}

    def kl(self, belief, target):
        return gaussian.kl_divergence(gaussian.normals(belief), gaussian.normals(target))

    def likelihood(self, q, private, gates, stream):
        """The mean negative log-likelihood of each client under the noise of the first step."""
        weights = gated.Weights(gaussian.normals(q), gaussian.normals(private), gates)
        keys = fold_in(fold_in(self.cohort.keys, 0), stream)
        logits = gated.logits(self.network, weights, self.x, Stream(keys, tf.float64))
        return -tf.reduce_mean(tfd.Categorical(logits=logits).log_prob(self.y), axis=1)

    def objectives(self, q, private, gates):
        """The free energies that θ and that φ, g minimise, summed over clients; the same number under `joint`."""
        scale = self.settings.kl_weight / EXAMPLES
        kl_shared = self.kl(q, self.target)
        kl_private = self.kl(private, self.prior) if private else 0.0
        if self.settings.private == 'residual':
            return (tf.reduce_sum(self.likelihood(q, {}, {}, 0) + scale * kl_shared),
                    tf.reduce_sum(self.likelihood(q, private, gates, 1) + scale * kl_private))
        whole = tf.reduce_sum(self.likelihood(q, private, gates, 0) + scale * (kl_shared + kl_private))
        return whole, whole


@pytest.mark.parametrize('estimator', ['local', 'sample'])
@pytest.mark.parametrize('private', ['none', 'joint', 'residual'])
def test_the_sgd_step_is_the_finite_difference_of_the_free_energy(private, estimator):
    problem = Problem(private, estimator)
    structure = (problem.q, problem.private.weights, problem.private.gates)
    leaves = [leaf.numpy() for leaf in tf.nest.flatten(structure)]
    shared_leaves = len(tf.nest.flatten(problem.q))
    value = tf.function(lambda *leaves: problem.objectives(*tf.nest.pack_sequence_as(structure, leaves)))
    step = 1e-6
    for position, (leaf, gradient) in enumerate(zip(leaves, tf.nest.flatten(problem.gradient()))):
        objective = 0 if position < shared_leaves else 1
        for index in np.ndindex(leaf.shape):
            ends = []
            for sign in (1.0, -1.0):
                moved = leaf.copy()
                moved[index] += sign * step
                ends.append(float(value(*leaves[:position], moved, *leaves[position + 1:])[objective]))
            # Central differences: an error of step² and of rounding, 1e-16 / step.
            np.testing.assert_allclose(gradient.numpy()[index], (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize('private', ['none', 'joint'])
def test_for_one_client_in_all_the_step_descends_minus_the_elbo_over_n(private):
    # K = 1 and w = 1: s / s_1 = 1, so the regulariser is the prior, and with β = 1 and all examples in the batch
    # the free energy is −(E log p(D | θ, φ) − KL(q ‖ p(θ)) − KL(c ‖ p(φ))) / N.
    problem = Problem(private)
    problem.settings = make_settings(private=private, client_lr=RATE, kl_weight=1.0, max_scale=10.0)
    prior = {name: gaussian.from_moments(*value) for name, value in problem.prior.items()}
    posterior = {name: NaturalGaussian(*(leaf[0] for leaf in gaussian.from_moments(*value)))
                 for name, value in problem.q.items()}
    factor = gaussian.power(posterior, 1.0)
    target = free_energy.cavity_prior(
        prior, {name: NaturalGaussian(*(leaf[tf.newaxis] for leaf in value))
                for name, value in free_energy.cavity(posterior, factor).items()}, tf.ones([1], tf.float64))
    target, floored = free_energy.regulariser(target, posterior, 1e-3)
    assert np.array_equal(floored, [0])
    parts = (problem.q, problem.private.weights, problem.private.gates)
    with tf.GradientTape() as tape:
        tape.watch(parts)
        q, private_weights, gates = parts
        weights = gated.Weights(gaussian.normals(q), gaussian.normals(private_weights), gates)
        logits = gated.logits(problem.network, weights, problem.x,
                               Stream(fold_in(fold_in(problem.cohort.keys, 0), 0), tf.float64))
        elbo = tf.reduce_sum(tfd.Categorical(logits=logits).log_prob(problem.y), axis=1)
        for belief in filter(None, (q, private_weights)):
            elbo -= gaussian.kl_divergence(gaussian.normals(belief), gaussian.normals(problem.prior))
        loss = -tf.reduce_sum(elbo) / EXAMPLES
    expected = tape.gradient(loss, parts)
    for ours, theirs in zip(tf.nest.flatten(problem.gradient(target)), tf.nest.flatten(expected)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


def test_the_closed_form_kl_gradient_is_autodiffs():
    generator = np.random.default_rng(2)
    moments, target = (Moments(doubles(generator, (3, 4)), doubles(generator, (3, 4), 0.1, 2.0)) for _ in range(2))
    with tf.GradientTape() as tape:
        tape.watch(moments)
        kl = tf.reduce_sum(tfd.kl_divergence(tfd.Normal(*moments), tfd.Normal(*target)))
    expected = tape.gradient(kl, moments)
    np.testing.assert_allclose(
        free_energy.kl_gradient(moments, gaussian.from_moments(*target)), expected, rtol=1e-9)


def test_the_implicit_gradient_is_the_free_energys_over_one_plus_rate_times_the_kls_curvature():
    generator = np.random.default_rng(4)
    moments, target = (Moments(doubles(generator, (3, 4)), doubles(generator, (3, 4), 0.1, 2.0)) for _ in range(2))
    likelihood = Moments(doubles(generator, (3, 4)), doubles(generator, (3, 4)))
    weight, rate = tf.constant([[0.1], [1.0], [5.0]], tf.float64), 0.7
    with tf.GradientTape() as outer:
        outer.watch(moments)
        with tf.GradientTape() as tape:
            tape.watch(moments)
            kl = tf.reduce_sum(tfd.kl_divergence(tfd.Normal(*moments), tfd.Normal(*target)))
        first = tape.gradient(kl, moments)
        total = tf.reduce_sum(first.mean) + tf.reduce_sum(first.scale)
    second = outer.gradient(total, moments)     # μ and σ do not mix in the KL
    target = gaussian.from_moments(*target)
    whole = [g + weight * f for g, f in zip(likelihood, first)]
    np.testing.assert_allclose(free_energy.implicit_gradient(likelihood, moments, target, weight, rate),
                               [g / (1 + rate * weight * s) for g, s in zip(whole, second)], rtol=1e-9)
    np.testing.assert_allclose(
        free_energy.implicit_gradient(likelihood, moments, target, weight, 0.0), whole, rtol=1e-9)


@pytest.mark.parametrize('stiffness', [0.1, 1.9, 2.1, 1e6])
def test_implicit_steps_end_at_the_minimum_of_the_free_energy_however_sharp_the_target_is(stiffness):
    """Loss h/2·((μ − y)² + σ²) and weight·KL, stiffness = rate·weight·ξ_p: q ∝ target · exp(−loss/weight) is least."""
    rate, xi, h, y = 0.2, 2.5e5, 1.5, 2.0
    weight = stiffness / (rate * xi)
    target = NaturalGaussian(*(tf.constant([value], tf.float64) for value in (0.3 * xi, xi)))
    minimum = NaturalGaussian(0.3 * xi + h * y / weight, xi + h / weight)
    moments = Moments(tf.constant([-0.5], tf.float64), tf.constant([0.05], tf.float64))

    def step(moments, rate_of_implicit):
        likelihood = Moments(h * (moments.mean - y), h * moments.scale)
        gradient = free_energy.implicit_gradient(likelihood, moments, target, weight, rate_of_implicit)
        return Moments(*(m - rate * g for m, g in zip(moments, gradient)))

    explicit = moments
    for _ in range(300):
        moments = step(moments, rate)
        explicit = Moments(step(explicit, 0.0).mean, moments.scale)
    np.testing.assert_allclose(moments, [[minimum.chi / minimum.xi], [minimum.xi ** -0.5]], rtol=1e-6)
    # In μ the explicit step multiplies the distance by 1 − rate·(weight·ξ_p + h) = 1 − stiffness − 0.3.
    assert (abs(explicit.mean - minimum.chi / minimum.xi) < 1e-3) == (stiffness + rate * h < 2)


def test_proposition_1_eq_3_is_the_kl_of_appendix_c_up_to_a_constant():
    """One weight θ, one φ and a Gaussian likelihood that couples them, with random Gaussians for all else.

    App. C: KL(s c ‖ s c / (s_i c_i) · p(θ, φ | D) / p(θ)^{(K−1)/K}), whose target is unnormalised. Both sides are
    integrated numerically for several (q, c_i); their difference has to be one number.
    """
    generator = np.random.default_rng(3)
    clients = 3
    prior, posterior, factor = (gaussian.from_moments(*map(tf.constant, pair)) for pair in (
        (0.0, 1.3), (0.4, 0.5), (-0.3, 1.1)))
    cavity = free_energy.cavity(posterior, factor)
    target = free_energy.cavity_prior(prior, cavity, 1.0 / clients)
    data, noise = generator.normal(size=4), 0.8
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(40)
    node_weights = node_weights / node_weights.sum()

    def log_natural(value, x):
        return float(value.chi) * x - float(value.xi) * x ** 2 / 2

    def both(q, c):
        theta, phi = q[0] + q[1] * nodes[:, np.newaxis], c[0] + c[1] * nodes[np.newaxis]
        expectation = functools.partial(np.einsum, 'i,j,ij->', node_weights, node_weights)
        observed = data[:, np.newaxis, np.newaxis]
        log_likelihood = scipy.stats.norm.logpdf(observed, theta + phi * theta, noise).sum(axis=0)
        log_prior_phi = scipy.stats.norm.logpdf(phi, 0.0, 1.3)
        log_q, log_c = scipy.stats.norm.logpdf(theta, *q), scipy.stats.norm.logpdf(phi, *c)
        proper = gaussian.to_normal(target)
        eq_3 = (float(tfd.kl_divergence(tfd.Normal(np.float32(q[0]), np.float32(q[1])), proper))
                + float(tfd.kl_divergence(tfd.Normal(np.float32(c[0]), np.float32(c[1])), tfd.Normal(0.0, 1.3)))
                - expectation(log_likelihood))
        # s c / (s_i c_i) is the cavity of θ alone: the other clients' c_j drop out of the divergence.
        refined = (log_natural(cavity, theta) + log_likelihood + log_prior_phi + log_natural(prior, theta)
                   - (clients - 1) / clients * log_natural(prior, theta))
        return eq_3, expectation(log_q + log_c - refined)

    pairs = np.array([both((generator.normal(), generator.uniform(0.2, 1.0)),
                           (generator.normal(), generator.uniform(0.2, 1.0))) for _ in range(6)])
    differences = pairs[:, 0] - pairs[:, 1]
    assert np.ptp(pairs[:, 0]) > 1.0, 'the free energies themselves differ'
    np.testing.assert_allclose(differences, differences[0], atol=1e-4)


def test_the_cavity_prior_is_prior_to_the_weight_times_what_the_others_said():
    generator = np.random.default_rng(4)
    factors = NaturalGaussian(doubles(generator, (3, 5)), doubles(generator, (3, 5), 1.0, 2.0))
    posterior = {'w': NaturalGaussian(tf.reduce_sum(factors.chi, 0), tf.reduce_sum(factors.xi, 0))}
    prior = {'w': NaturalGaussian(tf.zeros([1, 5], tf.float64), tf.fill([1, 5], tf.constant(4.0, tf.float64)))}
    weights = tf.constant([0.2, 0.3, 0.5], tf.float64)
    target = free_energy.cavity_prior(prior, free_energy.cavity(posterior, {'w': factors}), weights)['w']
    for i in range(3):
        others = [j for j in range(3) if j != i]
        np.testing.assert_allclose(target.chi[i], factors.chi.numpy()[others].sum(0), rtol=1e-12)
        np.testing.assert_allclose(target.xi[i], 4.0 * weights[i] + factors.xi.numpy()[others].sum(0), rtol=1e-12)


def test_the_regulariser_takes_the_posteriors_mean_where_the_cavity_prior_is_too_wide():
    target = {'w': NaturalGaussian(tf.constant([[6.0, 9.0], [1.0, 8.0]]), tf.constant([[3.0, 1.9], [-5.0, 2.0]]))}
    posterior = {'w': NaturalGaussian(tf.constant([12.0, 20.0]), tf.constant([4.0, 5.0]))}
    floored, count = free_energy.regulariser(target, posterior, 2.0)
    # Means of the posterior are 3 and 4; 1.9 and −5 lie below 2, 2 itself does not.
    assert np.array_equal(floored['w'].xi, [[3.0, 2.0], [2.0, 2.0]])
    assert np.array_equal(floored['w'].chi, [[6.0, 2.0 * 4.0], [2.0 * 3.0, 8.0]])
    assert np.array_equal(count, [1, 1])


def test_only_real_targets_count_in_the_likelihood():
    generator = np.random.default_rng(5)
    logits = doubles(generator, (3, 4, 5))
    y = np.array([[0, 1, 4, -1], [2, 2, 2, 2], [3, -1, -1, -1]], np.int32)
    mask = np.array([[True, True, True, False], [True, False, True, False], [False] * 4])
    losses, (loss, hits, count) = likelihood.negative_log_likelihood(logits, tf.constant(y), mask)
    log_p = np.log(np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True))
    for i in range(2):
        rows = np.flatnonzero(mask[i])
        np.testing.assert_allclose(losses[i], -np.mean(log_p[i, rows, y[i, rows]]), rtol=1e-10)
        assert hits[i] == (log_p[i, rows].argmax(axis=-1) == y[i, rows]).sum()
    assert losses[2] == 0.0 and list(count) == [3, 2, 0] and loss[2] == 0.0
