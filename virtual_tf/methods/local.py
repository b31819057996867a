"""Local training: every client alone, the floor that a federated method has to beat.

    objective   min over v_i of F_i(v_i), for each client i
    client      v_i: SGD on F_i from where its last visit ended
    server      nothing; no byte travels, and S tests the initial model, which everybody starts from
"""
from functools import partial

from virtual_tf.core.client_axis import aggregate, for_each_client
from virtual_tf.methods import local_sgd, plain_training
from virtual_tf.methods.interface import Algorithm
from virtual_tf.methods.registry import Method, register
from virtual_tf.networks import gated


def client_update(network, settings, server, clients, cohort):
    trained = plain_training.train(network, settings, gated.without_private(clients), cohort)
    return trained.weights.shared, {}, plain_training.training([trained])


def local(network, settings):
    """The method as an Algorithm; server's state and deltas are empty."""
    def initial_model(clients):
        return for_each_client(plain_training.initial_weights(network, settings, settings.seed), clients)

    return Algorithm(
        init=lambda seed: {},
        init_clients=lambda server, weight, keys: initial_model(len(weight)),
        client_update=local_sgd.compiled(partial(client_update, network, settings), settings),
        aggregate=aggregate,
        server_update=lambda server, delta: (server, {}),
        commit=plain_training.commit,
        server_model=lambda server: gated.without_private(initial_model(1)),
        client_models=gated.without_private,
        no_delta=lambda server: {})


METHOD = register(Method('local', local, 'Local', looks={'Local': ('#7F7F7F', ':')}, learns_server=False))
