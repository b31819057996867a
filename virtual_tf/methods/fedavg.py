"""FedAvg: federated averaging (McMahan et al. 2017).

    client   w_i: SGD on F_i from the server's weights w
    server   w ← w + η_s · Σ N_i (w_i − w) / Σ N_i

A client deploys its w_i, fine-tuned or mixed with w if asked for, and may have a private path beside it.
"""
from functools import partial
from typing import NamedTuple

from virtual_tf.core.client_axis import aggregate, for_each_client
from virtual_tf.core.settings import Setting
from virtual_tf.methods import fine_tuning, local_sgd, plain_training, private_path
from virtual_tf.methods.interface import Algorithm
from virtual_tf.methods.registry import Method, Sweep, register
from virtual_tf.networks import gated


class ClientState(NamedTuple):
    """What a client keeps: a private path, if it has one, and the weights that it trained last."""
    private: dict
    gates: dict
    deployed: dict


def init_clients(network, settings, server, weight, keys):
    private, gates = {}, {}
    if settings.private != 'none':
        private = gated.initial_means(network, keys, settings.private_mean_init, settings.private_mean_scale)
        gates = gated.initial_gates(network, len(keys), settings.gate_init)
    return ClientState(private, gates, for_each_client(server, len(weight)))


def client_update(network, settings, l2, server, clients, cohort):
    """SGD from the server's weights, with (l2/2)·‖w_i − w‖² to pay."""
    start = gated.Weights(for_each_client(server, cohort.size.shape[0]), clients.private, clients.gates)
    trained = plain_training.train(network, settings, start, cohort, l2, server, private=settings.private)
    weights = trained.weights
    deltas = plain_training.weighed_deltas(settings, server, weights.shared, cohort)
    deployed = mixed(server, fine_tuning.fine_tune(network, settings, weights, cohort), settings.mt_share)
    proposals = ClientState(weights.private, weights.gates, deployed)
    return proposals, deltas, plain_training.training([trained], proposals, deltas)


def mixed(server, found, share):
    """Weights {name: [C, …]} at `share` of the way from the server's to what clients found."""
    if share == 1.0:
        return found
    return {name: server[name] + share * (value - server[name]) for name, value in found.items()}


def client_models(clients):
    return gated.Weights(clients.deployed, clients.private, clients.gates)


def fedavg(network, settings, l2=0.0):
    """The method as an Algorithm."""
    return Algorithm(
        partial(plain_training.initial_weights, network, settings), partial(init_clients, network, settings),
        local_sgd.compiled(partial(client_update, network, settings, l2), settings), aggregate,
        partial(plain_training.server_update, settings), plain_training.commit, plain_training.server_model,
        client_models, plain_training.no_delta)


SETTINGS = {'mt_share': Setting(
    1.0, 'share of the way from the server\'s weights to its own that a client deploys, as γ is with '
    'mt_model=damped; never sent', above=0.0, high=1.0)}
METHOD = register(Method(
    'fedavg', fedavg, 'FedAvg', reference=True, settings=private_path.SETTINGS | fine_tuning.SETTINGS | SETTINGS,
    looks={'FedAvg': ('#E69F00', '--'), 'FedAvg, tuned': ('#A6611A', '--')},
    sweep=Sweep('server_lr', (0.7, 1.0, 1.4, 2.0), server_lr=(0.5, 2.8, 4.0, 5.6),
                small_axis='server_lr', small_values=(1.0, 1.4))))
