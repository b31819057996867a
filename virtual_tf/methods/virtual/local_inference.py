"""Line 8 of Algorithm 1: what a client finds on its own data, for the shared weights and for its private ones."""
from typing import NamedTuple

import tensorflow as tf

from virtual_tf.core import random_streams
from virtual_tf.core.client_axis import over_clients
from virtual_tf.methods import guards, local_sgd
from virtual_tf.methods.virtual import gaussian
from virtual_tf.methods.virtual.carried import carriers
from virtual_tf.methods.virtual.coordinates import COORDINATES
from virtual_tf.methods.virtual.gaussian import normals
from virtual_tf.methods.virtual.gaussian_steps import gaussian_step
from virtual_tf.networks import gated
from virtual_tf.networks.likelihood import expected_loss

# Of the streams that a client's key gives by step: no training has so many steps.
_CHECK, _PRIVATE = 2 ** 30, 2 ** 31


class Private(NamedTuple):
    """c_i as Moments by weight name, and the gates by layer; both empty without a private path."""
    weights: dict
    gates: dict


def minimise_free_energy(network, settings, start, private, target, prior, cohort):
    """SGD on Eq. 3 from q = start; returns Moments of q, the private state, the Fit.

    With private=after the private state stays as it is, for train_private.
    """
    coordinates, carried = COORDINATES[settings.parameterisation], carriers(network, settings)
    step_of = gaussian_step(settings)
    sizes = _sizes(cohort, start)
    weights = {'shared': settings.kl_weight / sizes, 'private': private_kl_weight(settings) / sizes}
    targets = {'shared': target, 'private': prior}
    waiting = settings.private == 'after'
    trained_with = Private({}, {}) if waiting else private

    def gradient(parameters, x, y, mask, step):
        shared, own = (_decode(coordinates, carried, parameters[group]) for group in ('shared', 'private'))
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch((shared, own, parameters['gates']))
            beliefs = [{name: carried[name].normal(value, parameters[group][name]) for name, value in moments.items()}
                       for group, moments in (('shared', shared), ('private', own))]
            loss, sums = expected_loss(
                network, gated.Weights(*beliefs, parameters['gates']),
                'none' if waiting else settings.private, x, y, mask, random_streams.fold_in(cohort.keys, step))
        return dict(zip(('shared', 'private', 'gates'), tape.gradient(loss, (shared, own, parameters['gates'])))), sums

    def move(parameters, gradients, share, scale):
        moved = {group: {
            name: carried[name].pack(step_of(carried[name].unpack(value), gradients[group][name],
                                             targets[group][name], weights[group], share, scale))
            for name, value in parameters[group].items()} for group in ('shared', 'private')}
        return moved | {'gates': _move_gates(
            settings, parameters['gates'], gradients['gates'], share, scale, cohort)}

    encoded = {group: {name: carried[name].pack(coordinates.encode(value)) for name, value in beliefs.items()}
               for group, beliefs in (('shared', start), ('private', trained_with.weights))}
    trained, fit = local_sgd.sgd(gradient, move, encoded | {'gates': trained_with.gates}, cohort,
                                 settings.max_gradient_norm)
    found = Private(_decode(coordinates, carried, trained['private']), trained['gates'])
    return _decode(coordinates, carried, trained['shared']), private if waiting else found, fit


def train_private(network, settings, deployed, private, prior, cohort):
    """private=after: c_i and the gates go on for E epochs on what the θ that is deployed leaves over; θ is frozen."""
    step_of, weight = gaussian_step(settings), private_kl_weight(settings) / _sizes(cohort, private)
    frozen = {name: value.mean for name, value in deployed.items()}

    def gradient(parameters, x, y, mask, step):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(parameters)
            loss, sums = expected_loss(
                network, gated.Weights(frozen, normals(parameters.weights), parameters.gates), 'joint', x, y, mask,
                random_streams.fold_in(cohort.keys, _PRIVATE + step))
        return tape.gradient(loss, parameters), sums

    def move(parameters, gradients, share, scale):
        return Private({name: step_of(value, gradients.weights[name], prior[name], weight, share, scale)
                        for name, value in parameters.weights.items()},
                       _move_gates(settings, parameters.gates, gradients.gates, share, scale, cohort))

    return local_sgd.sgd(gradient, move, private, cohort, settings.max_gradient_norm)[0]


def shorten(network, settings, start, found, target, cohort):
    """What of found = (q, private) a client keeps, on the line from where it started; and whether that is not all [C].

    On the line s·(q/s)^ρ natural parameters are straight, and so are the private moments here.
    """
    return guards.kept(settings, lambda candidate: mean_free_energy(network, settings, *candidate, target, cohort),
                       guards.line(start, found), found)


def mean_free_energy(network, settings, q, private, target, cohort):
    """F_i [C] of q, NaturalGaussians, over all of a client's data under one noise; private weights count if joint."""
    belief = gaussian.to_normal(q)
    own = private if settings.private == 'joint' else Private({}, {})
    weights = gated.Weights(belief, normals(own.weights), own.gates)
    loss = local_sgd.mean_loss(lambda x, y, mask, step: expected_loss(
        network, weights, 'joint', x, y, mask, random_streams.fold_in(cohort.keys, _CHECK + step))[1],
        cohort, settings.epochs)
    return loss + settings.kl_weight / _sizes(cohort, q) * gaussian.kl_divergence(belief, gaussian.to_normal(target))


def private_kl_weight(settings):
    """β of the private weights: that of the shared ones unless it is set."""
    return settings.private_kl_weight or settings.kl_weight


def _move_gates(settings, gates, gradients, share, scale, cohort):
    """SGD on gates g ≥ 0 with the prior exp(−λ·Σg), which holds a gate shut unless the data pull harder than λ/N."""
    def move(gate, gradient):
        pull = over_clients(scale, gate) * gradient + over_clients(settings.gate_prior / _sizes(cohort, gate), gate)
        return tf.nn.relu(gate - over_clients(settings.client_lr * share, gate) * pull)
    return tf.nest.map_structure(move, gates, gradients)


def _sizes(cohort, like):
    """N_i in the type of a nest of tensors."""
    return tf.cast(cohort.size, tf.nest.flatten(like)[0].dtype)


def _decode(coordinates, carried, beliefs):
    return {name: coordinates.decode(carried[name].unpack(value)) for name, value in beliefs.items()}
