"""What methods share whose server averages Gaussians that the clients infer, with the server's own as prior.

    client   q_i = argmin over q of E_q[N_i ℓ] + β·KL(q ‖ s), from q = s
    server   s ← s + η_s · Σ N_i (q_i − s) / Σ N_i in the parameters that the coordinates name

In natural parameters the mean has ξ = Σ p_i ξ_i and μ = Σ p_i ξ_i μ_i / ξ, with p_i = N_i / Σ N: it minimises
Σ p_i KL(s ‖ q_i). In (μ, σ) it minimises Σ p_i W₂²(s, q_i).
"""
import dataclasses
from functools import partial

import tensorflow as tf

from virtual_tf.core.client_axis import aggregate, all_finite, for_each_client
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import COMMON, Settings
from virtual_tf.methods import local_sgd, plain_training
from virtual_tf.methods.interface import Algorithm
from virtual_tf.methods.virtual import gaussian
from virtual_tf.methods.virtual import settings as of_virtual
from virtual_tf.methods.virtual.gaussian import Moments, from_moments, normals
from virtual_tf.methods.virtual.local_inference import Private, minimise_free_energy, shorten
from virtual_tf.networks import gated

STEP_SETTINGS = {name: of_virtual.SETTINGS[name] for name in (
    'precision_update', 'precision_step', 'init_scale', 'estimator', 'min_scale', 'max_scale')}
STEP_SETTINGS |= {name: dataclasses.replace(STEP_SETTINGS[name], default=default) for name, default in (
    ('precision_update', 'sgd'), ('precision_step', 0.01), ('init_scale', 0.02))}
SETTINGS = {'kl_weight': dataclasses.replace(of_virtual.SETTINGS['kl_weight'], default=1.0), **STEP_SETTINGS}
NO_PRIVATE = Private({}, {})


def as_virtual(settings, **changes):
    """VIRTUAL's settings with the values that a method shares with it, and no private weights."""
    declared = COMMON | of_virtual.SETTINGS
    shared = {name: value for name, value in settings.to_dict().items() if name in declared}
    return Settings(shared | {'private': 'none', 'mt_model': 'trained'} | changes, declared)


def check(settings, **changes):
    """Refuses what VIRTUAL's clients would refuse."""
    of_virtual.check(as_virtual(settings, **changes))


def init(network, settings, coordinates, seed):
    means = plain_training.initial_weights(network, settings, seed)
    return {name: coordinates.encode(Moments(mean, tf.fill(mean.shape, settings.init_scale)))
            for name, mean in means.items()}


def decode(coordinates, server):
    """Moments of a server's or a client's state."""
    return {name: coordinates.decode(value) for name, value in server.items()}


def natural(moments):
    return {name: from_moments(*value) for name, value in moments.items()}


def client_update(network, settings, coordinates, share, server, clients, cohort):
    """Local inference; a client deploys what lies at `share` of the way from s to its q_i."""
    of_client = as_virtual(settings)
    prior = for_each_client(natural(decode(coordinates, server)), cohort.size.shape[0])
    moments, _, fit = minimise_free_energy(
        network, of_client, gaussian.to_moments(prior), NO_PRIVATE, prior, {}, cohort)
    found = natural(moments), NO_PRIVATE
    (q, _), shortened = shorten(network, of_client, (prior, NO_PRIVATE), found, prior, cohort)
    proposed = {name: coordinates.encode(value) for name, value in gaussian.to_moments(q).items()}
    deltas = plain_training.weighed_deltas(settings, server, proposed, cohort)
    deployed = decode(coordinates, tf.nest.map_structure(lambda new, old: old + share * (new - old), proposed, server))
    trained = plain_training.Trained(found, fit, all_finite(found), shortened)
    training = plain_training.training([trained], deltas, deployed)
    kl = gaussian.kl_divergence(gaussian.to_normal(q), gaussian.to_normal(prior))
    return deployed, deltas, training._replace(details=training.details | {'kl/shared': kl})


def server_update(settings, coordinates, server, delta):
    """The mean, and σ between its bounds, which a server_lr above 1 could leave."""
    moved, shrink = plain_training.server_update(settings, server, delta)
    return {name: coordinates.clamp(value, settings.min_scale, settings.max_scale)
            for name, value in moved.items()}, shrink


def algorithm(network, settings, coordinates, update):
    """A method as an Algorithm; a client's state is Moments of what it deploys. update: its client_update."""
    if settings.server_lr > 1.0 and not coordinates.are_moments:
        raise VirtualTfError(f'server_lr = {settings.server_lr:g} goes beyond the mean of the clients\' precisions, '
                             'which need not be positive there; use at most 1')
    return Algorithm(
        partial(init, network, settings, coordinates),
        lambda server, weight, keys: for_each_client(decode(coordinates, server), len(weight)),
        local_sgd.compiled(update, settings), aggregate, partial(server_update, settings, coordinates),
        plain_training.commit,
        server_model=lambda server: gated.without_private(normals(for_each_client(decode(coordinates, server), 1))),
        client_models=lambda clients: gated.without_private(normals(clients)), no_delta=plain_training.no_delta)
