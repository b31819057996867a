"""FedAvg: federated averaging (McMahan et al. 2017).

Clients minimise their own loss from the server's weights w; the server moves by η_s times the mean of their
differences, weighted by client size:  w ← w + η_s · Σ N_i (w_i − w) / Σ N_i.
A delta is the pair (N_i (w_i − w), N_i), so that summing is all that aggregation does.
"""
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import tensorflow as tf

from virtual_tf.core import random_streams
from virtual_tf.core.client_axis import aggregate, all_finite, for_each_client, keep_accepted, over_clients
from virtual_tf.methods import fine_tuning, guards, local_sgd, private_path
from virtual_tf.methods.interface import Algorithm, Training, WeighedDelta
from virtual_tf.methods.registry import Method, Sweep, register
from virtual_tf.methods.rounding import round_values
from virtual_tf.networks import gated
from virtual_tf.networks.likelihood import expected_loss


class Penalty(NamedTuple):
    """A regulariser that holds the clients to the server."""
    value: Callable        # (weights {name: [C, …]}, server {name: […]}) → [C]
    gradient: Callable     # (weight [C, …], the server's […]) → [C, …]


class ClientState(NamedTuple):
    """What a client keeps: a private path, if it has one, and the weights that it trained last."""
    private: dict
    gates: dict
    deployed: dict


def init(network, settings, seed):
    keys = random_streams.make_keys(seed, random_streams.INITIAL_MEANS)
    means = gated.initial_means(network, keys, settings.mean_init, settings.mean_init_scale)
    return {name: mean[0] for name, mean in means.items()}


def init_clients(network, settings, server, weight, keys):
    private, gates = {}, {}
    if settings.private != 'none':
        private = gated.initial_means(network, keys, settings.private_mean_init, settings.private_mean_scale)
        gates = gated.initial_gates(network, len(keys), settings.gate_init)
    return ClientState(private, gates, for_each_client(server, len(weight)))


def client_update(network, settings, penalty, server, clients, cohort):
    """SGD from the server's weights, with a Penalty where there is one."""
    start = gated.Weights(for_each_client(server, cohort.size.shape[0]), clients.private, clients.gates)

    def loss_of(weights, x, y, mask, step):
        return expected_loss(network, weights, settings.private, x, y, mask, random_streams.fold_in(cohort.keys, step))

    def gradient(weights, x, y, mask, step):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            loss, sums = loss_of(weights, x, y, mask, step)
        gradients = tape.gradient(loss, weights)
        if penalty is not None:
            gradients = gradients._replace(shared={
                name: value + penalty.gradient(weights.shared[name], server[name])
                for name, value in gradients.shared.items()})
        return gradients, sums

    def objective(weights):
        loss = local_sgd.mean_loss(lambda *batch: loss_of(weights, *batch)[1], cohort, settings.epochs)
        return loss if penalty is None else loss + penalty.value(weights.shared, server)

    trained, fit = local_sgd.sgd(gradient, local_sgd.descend(settings.client_lr, legal), start, cohort,
                                 settings.max_gradient_norm)
    finite = all_finite(trained)
    trained, shortened = guards.kept(settings, objective, guards.line(start, trained), trained)
    size = tf.cast(cohort.size, fit.loss.dtype)
    deltas = round_values(WeighedDelta({
        name: over_clients(cohort.step * size, value) * (value - server[name])
        for name, value in trained.shared.items()}, size), settings.values)
    proposals = ClientState(trained.private, trained.gates, fine_tuning.fine_tune(network, settings, trained, cohort))
    return proposals, deltas, Training(
        fit.loss, fit.accuracy, finite & all_finite((proposals, deltas, fit.loss)),
        {'clipped_steps': fit.clipped, 'shortened_updates': shortened})


def legal(weights):
    """Gates are never negative."""
    return weights._replace(gates=tf.nest.map_structure(tf.nn.relu, weights.gates))


def server_update(settings, server, delta):
    # A round in which every client was dropped moves nothing.
    scale = settings.server_lr / tf.maximum(delta.size, 1.0)
    return {name: value + scale * delta.weighted[name] for name, value in server.items()}, {}


def commit(clients, proposals, deltas, shrink, accepted):
    return keep_accepted(proposals, clients, accepted)


def server_model(server):
    return gated.without_private(for_each_client(server, 1))


def client_models(clients):
    return gated.Weights(clients.deployed, clients.private, clients.gates)


def no_delta(server):
    return WeighedDelta(tf.nest.map_structure(tf.zeros_like, server), tf.constant(0.0))


def fedavg(network, settings, penalty=None):
    """The method as an Algorithm."""
    return Algorithm(
        partial(init, network, settings), partial(init_clients, network, settings),
        local_sgd.compiled(partial(client_update, network, settings, penalty), settings), aggregate,
        partial(server_update, settings), commit, server_model, client_models, no_delta)


METHOD = register(Method(
    'fedavg', fedavg, 'FedAvg', reference=True, settings=private_path.SETTINGS | fine_tuning.SETTINGS,
    looks={'FedAvg': ('#E69F00', '--')},
    sweep=Sweep('server_lr', (0.7, 1.0, 1.4, 2.0), server_lr=(0.5, 2.8, 4.0, 5.6),
                small_axis='server_lr', small_values=(1.0, 1.4))))
