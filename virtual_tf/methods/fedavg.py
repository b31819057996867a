"""FedAvg: federated averaging (McMahan et al. 2017), and FedProx (Sahu et al. 2018), which adds a penalty.

Clients minimise their own loss from the server's weights w; the server moves by η_s times the mean of their
differences, weighted by client size:  w ← w + η_s · Σ N_i (w_i − w) / Σ N_i.
A delta is the pair (N_i (w_i − w), N_i), so that summing is all that aggregation does.
"""
from typing import NamedTuple

import tensorflow as tf

from virtual_tf.core import random_streams
from virtual_tf.core.client_axis import aggregate, all_finite, for_each_client, keep_accepted, over_clients
from virtual_tf.core.errors import Algorithm, Training
from virtual_tf.methods import local_sgd
from virtual_tf.methods.virtual import pruning
from virtual_tf.methods.virtual.free_energy import expected_loss
from virtual_tf.networks import models


class ClientState(NamedTuple):
    """What a client keeps: a private path, if it has one, and the weights that it trained last."""
    private: dict
    gates: dict
    deployed: dict


class Delta(NamedTuple):
    weighted: dict    # N_i (w_i − w)
    size: tf.Tensor   # N_i


def fedavg(network, settings, penalty=None):
    """The method as an Algorithm; `penalty(weights, start)` is the gradient of a regulariser of one weight."""

    def init(seed):
        means = models.initial_means(
            network, random_streams.make_keys(seed, 0), settings.mean_init, settings.mean_init_scale)
        return {name: mean[0] for name, mean in means.items()}

    def init_clients(server, weight, keys):
        private, gates = {}, {}
        if settings.private != 'none':
            private = models.initial_means(
                network, keys, settings.private_mean_init, settings.private_mean_scale)
            gates = models.initial_gates(network, len(keys), settings.gate_init)
        return ClientState(private, gates, for_each_client(server, len(weight)))

    @tf.function(jit_compile=settings.compile == 'xla', autograph=False)
    def client_update(server, clients, cohort):
        start = models.Weights(for_each_client(server, cohort.size.shape[0]), clients.private, clients.gates)

        def gradient(weights, x, y, mask, step):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(weights)
                loss, sums = expected_loss(
                    network, weights, settings.private, x, y, mask, random_streams.fold_in(cohort.keys, step))
            gradients = tape.gradient(loss, weights)
            if penalty is not None:
                gradients = gradients._replace(shared={
                    name: value + penalty(weights.shared[name], server[name])
                    for name, value in gradients.shared.items()})
            return gradients, sums

        def project(weights):
            return weights._replace(gates=tf.nest.map_structure(tf.nn.relu, weights.gates))

        trained, (loss, accuracy) = local_sgd.sgd(gradient, project, start, cohort, settings.client_lr)
        size = tf.cast(cohort.size, loss.dtype)
        deltas = pruning.round_values(Delta({name: over_clients(size, value) * (value - server[name])
                                            for name, value in trained.shared.items()}, size), settings.values)
        proposals = ClientState(trained.private, trained.gates, trained.shared)
        return proposals, deltas, Training(loss, accuracy, all_finite((proposals, deltas, loss)), {})

    def server_update(server, delta):
        # A round in which every client was dropped moves nothing.
        scale = settings.server_lr / tf.maximum(delta.size, 1.0)
        return {name: value + scale * delta.weighted[name] for name, value in server.items()}, {}

    def commit(clients, proposals, deltas, shrink, accepted):
        return keep_accepted(proposals, clients, accepted)

    def server_model(server):
        return models.Weights(for_each_client(server, 1))

    def client_models(clients):
        return models.Weights(clients.deployed, clients.private, clients.gates)

    def no_delta(server):
        return Delta(tf.nest.map_structure(tf.zeros_like, server), tf.constant(0.0))

    return Algorithm(init, init_clients, client_update, aggregate, server_update, commit, server_model, client_models,
                     no_delta)
