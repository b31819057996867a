"""VIRTUAL: variational federated multi-task learning (Corinzia, Beuret, Buhmann), Algorithm 1.

    posterior  s(θ)      the server's belief, = Π_i factor_i
    factor     s_i(θ)    client i's contribution to it; a ratio, so it may be improper
    private    c_i(φ_i)  client i's belief about its own weights, with the gates that let them in
    delta      Δ_i       what travels up

A round is client_update → aggregate → server_update → commit. `aggregate` turns the clients' deltas into the one
delta that the server sees.
"""
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import tensorflow as tf

from virtual_tf.core import random_streams
from virtual_tf.core.client_axis import aggregate, all_finite, for_each_client, keep_accepted
from virtual_tf.core.settings import Settings
from virtual_tf.methods import local_sgd
from virtual_tf.methods.fine_tuning import fine_tune
from virtual_tf.methods.interface import Algorithm, Training
from virtual_tf.methods.registry import Method, Sweep, register
from virtual_tf.methods.virtual import gaussian, pruning
from virtual_tf.methods.virtual.free_energy import cavity, cavity_prior, regulariser
from virtual_tf.methods.virtual.gaussian import Moments, NaturalGaussian, from_moments, normals, power, product, ratio
from virtual_tf.methods.virtual.local_inference import Private, minimise_free_energy, shorten, train_private
from virtual_tf.methods.virtual.settings import PRESETS, SETTINGS, check, complete
from virtual_tf.networks import gated


class ClientState(NamedTuple):
    """What a client keeps between its visits; leaves [C, …]."""
    factor: dict
    private: Private
    deployed: dict     # Moments of the q that MT tests
    carried: dict      # with error feedback: what was held back of the deltas so far, in no factor


class Proposal(NamedTuple):
    """What a client has found, before it knows what the server makes of its delta."""
    private: Private
    deployed: dict
    residual: dict     # what pruning and rounding held back of the delta, where it is needed


class Setup(NamedTuple):
    """What all functions of a run have in common."""
    network: gated.Network
    settings: Settings
    prior: dict            # p(θ) of every weight, [1, …]
    private_prior: dict    # p(φ)
    compress: Callable     # pruning.compressor


def init(setup, seed):
    """Lines 2 and 3: posterior = N(m₀, σ₀²)."""
    settings = setup.settings
    means = gated.initial_means(setup.network, random_streams.make_keys(seed, random_streams.INITIAL_MEANS),
                                settings.mean_init, settings.mean_init_scale)
    return {name: from_moments(mean[0], tf.fill(mean.shape[1:], settings.init_scale)) for name, mean in means.items()}


def init_clients(setup, posterior, weight, keys):
    """Lines 2 and 3: factor_i = posterior^{w_i}; Σ w_i = 1 makes their product the posterior."""
    beliefs = for_each_client(posterior, len(weight))
    return ClientState(power(beliefs, weight), init_private(setup.network, setup.settings, keys),
                       gaussian.to_moments(beliefs),
                       gaussian.identity(beliefs) if setup.settings.error_feedback else {})


def client_update(setup, posterior, clients, cohort):
    """Lines 6 to 9 for all clients of the cohort at once, and the damping of App. D."""
    network, settings, prior, private_prior, compress = setup
    cavities = cavity(posterior, clients.factor)
    target, floored = regulariser(cavity_prior(prior, cavities, cohort.weight), posterior, settings.min_precision)
    start, improper = first_belief(settings, posterior, cavities, cohort.weight)
    trained, private, fit = minimise_free_energy(
        network, settings, gaussian.to_moments(start), clients.private, target, private_prior, cohort)
    found = {name: from_moments(*value) for name, value in trained.items()}, private
    (q, private), shortened = shorten(network, settings, (posterior, clients.private), found, target, cohort)
    # Damping proposes (q / cavity)^γ · factor^{1−γ}; divided by the factor this is (q / posterior)^γ.
    deltas = power(ratio(q, posterior), settings.damping * cohort.step)
    deployed = deployed_belief(network, settings, posterior, q, private, cohort)
    if settings.private == 'after':
        private = train_private(network, settings, deployed, private, private_prior, cohort)
    sent, residual = compress(deltas, clients.factor, clients.carried)
    details = {'kl/shared': gaussian.kl_divergence(gaussian.to_normal(q), gaussian.to_normal(target)),
               'kl/private': private_kl(private, private_prior, fit.loss), 'floored_priors': floored,
               'improper_starts': improper, 'clipped_steps': fit.clipped, 'shortened_updates': shortened}
    accepted = all_finite((found, deltas, sent, private, deployed, fit.loss))
    return Proposal(private, deployed, residual), sent, Training(fit.loss, fit.accuracy, accepted, details)


def deployed_belief(network, settings, posterior, q, private, cohort):
    """Moments of what MT tests: q, what q damped makes of the posterior, or q with a mean that was fine-tuned."""
    moments = gaussian.to_moments(q)
    if settings.mt_model == 'damped':
        return gaussian.to_moments(product(posterior, power(ratio(q, posterior), settings.damping)))
    if settings.mt_model == 'trained':
        return moments
    own = private if settings.private in ('joint', 'residual') else Private({}, {})
    tuned = fine_tune(network, settings, gated.Weights(
        {name: value.mean for name, value in moments.items()},
        {name: value.mean for name, value in own.weights.items()}, own.gates), cohort)
    return {name: Moments(tuned[name], value.scale) for name, value in moments.items()}


def server_update(settings, posterior, delta):
    """Line 11: posterior · Δ^{η_s r}; returns the posterior and r."""
    return apply_delta(posterior, delta, settings.server_lr, settings.min_precision, settings.max_precision_drop)


def commit(settings, clients, proposals, deltas, shrink, accepted):
    """factor_i · Δ_i^{η_s r}: a client keeps what the server has multiplied in, so posterior = Π factor_i.

    factor_bookkeeping=authors keeps the damped, unpruned proposal instead, whatever the server applied.
    """
    if settings.factor_bookkeeping == 'exact':
        deltas = power(deltas, {name: settings.server_lr * r for name, r in shrink.items()})
    elif proposals.residual:
        deltas = product(deltas, proposals.residual)
    updated = ClientState(product(clients.factor, deltas), proposals.private, proposals.deployed,
                          proposals.residual if settings.error_feedback else {})
    return keep_accepted(updated, clients, accepted)


def server_model(posterior):
    """The server's network has no private path."""
    return gated.without_private(gaussian.to_normal(for_each_client(posterior, 1)))


def client_models(clients):
    return gated.Weights(normals(clients.deployed), normals(clients.private.weights), clients.private.gates)


def virtual(network, settings):
    """The method as an Algorithm."""
    def prior(scale):
        return {name: from_moments(tf.zeros([1, *shape]), tf.fill([1, *shape], scale))
                for name, shape in network.shapes().items()}

    setup = Setup(network, settings, prior(settings.prior_scale), prior(
        settings.private_prior_scale or settings.prior_scale), pruning.compressor(network.shapes(), settings))
    return Algorithm(
        partial(init, setup), partial(init_clients, setup),
        local_sgd.compiled(partial(client_update, setup), settings), aggregate, partial(server_update, settings),
        partial(commit, settings), server_model, client_models, gaussian.identity)


def first_belief(settings, posterior, cavities, weight):
    """q₀ of line 8 [C, …]: the posterior, or with client_start=fedavg_init cavity · posterior^{w_i}.

    The latter equals the posterior in the first round, where factor_i = posterior^{w_i}. A client whose factor is
    sharper than that may find its precision below m: there it starts from the posterior. How many weights do: [C].
    """
    beliefs, count = for_each_client(posterior, weight.shape[0]), tf.zeros(weight.shape, tf.int32)
    if settings.client_start == 'posterior':
        return beliefs, count
    start = {}
    for name, mixed in product(cavities, power(beliefs, weight)).items():
        improper = mixed.xi < settings.min_precision
        start[name] = NaturalGaussian(*(tf.where(improper, *pair) for pair in zip(beliefs[name], mixed)))
        count += tf.reduce_sum(tf.cast(improper, tf.int32), axis=list(range(1, improper.shape.rank)))
    return start, count


def apply_delta(posterior, delta, server_lr, min_precision, max_precision_drop=1.0):
    """posterior · Δ^{η_s r}, with the largest r ≤ 1 that keeps every precision at or above its floor; and r.

    The clients of a round answer each as if alone, so the sum of their deltas can push a precision below zero. The
    floor is min_precision, and no precision loses more than the share max_precision_drop in one round: the new mean
    is χ/ξ, so a ξ that nearly vanishes throws the mean away. χ is shrunk by the same r, weight by weight;
    contributing clients scale their own deltas by it too.
    """
    updated, shrink = {}, {}
    for name, (chi, xi) in posterior.items():
        change = server_lr * delta[name].xi
        floor = tf.maximum((1.0 - max_precision_drop) * xi, min_precision)
        falls = xi + change < floor
        shrink[name] = r = tf.where(falls, (xi - floor) / tf.where(falls, -change, 1.0), 1.0)
        updated[name] = NaturalGaussian(chi + server_lr * r * delta[name].chi, tf.maximum(xi + r * change, floor))
    return updated, shrink


def init_private(network, settings, keys):
    """c_i⁽⁰⁾ and the gates of clients with these random keys."""
    if settings.private == 'none':
        return Private({}, {})
    means = gated.initial_means(network, keys, settings.private_mean_init, settings.private_mean_scale)
    weights = {name: Moments(mean, tf.fill(mean.shape, settings.private_scale)) for name, mean in means.items()}
    return Private(weights, gated.initial_gates(network, len(keys), settings.gate_init))


def private_kl(private, prior, like):
    if not private.weights:
        return tf.zeros_like(like)
    return gaussian.kl_divergence(normals(private.weights), gaussian.to_normal(prior))


METHOD = register(Method(
    'virtual', virtual, 'VIRTUAL', settings=SETTINGS, defaults={'server_lr': 0.2}, presets=PRESETS, complete=complete,
    check=check, gaussian=True, natural_deltas=True,
    looks={'VIRTUAL': ('#0072B2', '-'), 'VIRTUAL, private weights': ('#CC79A7', '-.'),
           'VIRTUAL + FedAvg init': ('#D55E00', '--'),
           'VIRTUAL, authors\' choices': ('#000000', (0, (4, 1, 1, 1, 1, 1))), 'PVI': ('#56B4E9', (0, (3, 2)))},
    sweep=Sweep('damping', (0.25, 0.5, 0.75, 1.0), server_lr=(0.7, 1.4, 2.0, 2.8),
                small_axis='init_scale', small_values=(0.0078, 0.02))))
