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
from virtual_tf.core.client_axis import aggregate, all_finite, for_each_client, keep_accepted, over_clients
from virtual_tf.core.settings import Settings
from virtual_tf.methods import local_sgd
from virtual_tf.methods.interface import Algorithm, Training
from virtual_tf.methods.registry import Method, Sweep, register
from virtual_tf.methods.virtual import gaussian, pruning
from virtual_tf.methods.virtual.coordinates import COORDINATES
from virtual_tf.methods.virtual.free_energy import cavity, cavity_prior, implicit_gradient, regulariser
from virtual_tf.methods.virtual.gaussian import Moments, NaturalGaussian, from_moments, normals, power, product, ratio
from virtual_tf.methods.virtual.settings import PRESETS, SETTINGS, check, complete
from virtual_tf.networks import gated
from virtual_tf.networks.likelihood import expected_loss


class Private(NamedTuple):
    """c_i as Moments by weight name, and the gates by layer; both empty without a private path."""
    weights: dict
    gates: dict


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
    prior: dict            # p(θ) = p(φ) of every weight, [1, …]
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
    network, settings, prior, compress = setup
    cavities = cavity(posterior, clients.factor)
    target, floored = regulariser(cavity_prior(prior, cavities, cohort.weight), posterior, settings.min_precision)
    start, improper = first_belief(settings, posterior, cavities, cohort.weight)
    trained, private, (loss, accuracy) = minimise_free_energy(
        network, settings, gaussian.to_moments(start), clients.private, target, prior, cohort)
    q = {name: from_moments(*value) for name, value in trained.items()}
    # Damping proposes (q / cavity)^γ · factor^{1−γ}; divided by the factor this is (q / posterior)^γ.
    deltas = power(ratio(q, posterior), settings.damping)
    deployed = trained if settings.mt_model == 'trained' else gaussian.to_moments(product(posterior, deltas))
    sent, residual = compress(deltas, clients.factor, clients.carried)
    details = {'kl/shared': gaussian.kl_divergence(normals(trained), gaussian.to_normal(target)),
               'kl/private': private_kl(private, prior, loss), 'floored_priors': floored,
               'improper_starts': improper}
    training = Training(loss, accuracy, all_finite((deltas, sent, private, deployed, loss)), details)
    return Proposal(private, deployed, residual), sent, training


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
    prior = {name: from_moments(tf.zeros([1, *shape]), tf.fill([1, *shape], settings.prior_scale))
             for name, shape in network.shapes().items()}
    setup = Setup(network, settings, prior, pruning.compressor(network.shapes(), settings))
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


def minimise_free_energy(network, settings, start, private, target, prior, cohort):
    """Line 8: SGD on Eq. 3 from q = start; returns Moments of q, the private state, (loss, accuracy) [C]."""
    coordinates = COORDINATES[settings.parameterisation]
    kl_weight = settings.kl_weight / tf.cast(cohort.size, tf.nest.flatten(start)[0].dtype)
    # The rate of natural parameters is not that of μ and σ: there the step stays explicit.
    implicit_rate = settings.client_lr if coordinates.are_moments else 0.0

    def decode(beliefs):
        return {name: coordinates.decode(value) for name, value in beliefs.items()}

    def gradient(parameters, x, y, mask, step):
        shared, own = decode(parameters['shared']), decode(parameters['private'])
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch((shared, own, parameters['gates']))
            weights = gated.Weights(normals(shared), normals(own), parameters['gates'])
            loss, sums = expected_loss(
                network, weights, settings.private, x, y, mask, random_streams.fold_in(cohort.keys, step))
        of_shared, of_own, of_gates = tape.gradient(loss, (shared, own, parameters['gates']))
        return {'shared': add_kl(parameters['shared'], of_shared, target),
                'private': add_kl(parameters['private'], of_own, prior), 'gates': of_gates}, sums

    @local_sgd.fused
    def add_kl(beliefs, gradients, targets):
        """The likelihood's gradient with β/N_i times that of the KL term, in the coordinates of the SGD."""
        total = {}
        for name, moments in decode(beliefs).items():
            weight = over_clients(kl_weight, moments.mean)
            total[name] = coordinates.pull_back(beliefs[name], implicit_gradient(
                gradients[name], moments, targets[name], weight, implicit_rate))
        return total

    def project(parameters):
        clamped = {group: {name: coordinates.clamp(value, settings.min_scale, settings.max_scale)
                           for name, value in parameters[group].items()} for group in ('shared', 'private')}
        return clamped | {'gates': tf.nest.map_structure(tf.nn.relu, parameters['gates'])}

    encoded = {group: {name: coordinates.encode(value) for name, value in beliefs.items()}
               for group, beliefs in (('shared', start), ('private', private.weights))}
    trained, fit = local_sgd.sgd(gradient, project, encoded | {'gates': private.gates}, cohort, settings.client_lr)
    return decode(trained['shared']), Private(decode(trained['private']), trained['gates']), fit


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
           'VIRTUAL, authors\' choices': ('#000000', (0, (4, 1, 1, 1, 1, 1)))},
    sweep=Sweep('damping', (0.25, 0.5, 0.75, 1.0), server_lr=(0.7, 1.4, 2.0, 2.8),
                small_axis='init_scale', small_values=(0.0078, 0.02))))
