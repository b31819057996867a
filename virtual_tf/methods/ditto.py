"""Ditto (Li, Hu, Beirami, Smith 2021): a personal model beside FedAvg, held to it.

    objective   min over v_i of F_i(v_i) + (λ/2)·‖v_i − w*‖², with w* what FedAvg finds
    client      w_i: SGD on F_i from the server's w, which is sent as in FedAvg; and beside it
                v_i ← v_i − η_c·(∇F_i(v_i) + λ(v_i − w)), from the client's own v_i, which stays
    server      w ← w + η_s · Σ N_i (w_i − w) / Σ N_i

Both train for E epochs, so a round costs two of FedAvg's.
"""
from virtual_tf.core.client_axis import for_each_client
from virtual_tf.core.settings import Setting
from virtual_tf.methods import plain_training
from virtual_tf.methods.registry import Method, Sweep, register
from virtual_tf.networks import gated


def client_update(network, settings, server, clients, cohort):
    start = gated.without_private(for_each_client(server, cohort.size.shape[0]))
    shared = plain_training.train(network, settings, start, cohort)
    personal = plain_training.train(
        network, settings, gated.without_private(clients), cohort, settings.personal_l2, server)
    deltas = plain_training.weighed_deltas(settings, server, shared.weights.shared, cohort)
    return personal.weights.shared, deltas, plain_training.training([shared, personal], deltas)


def ditto(network, settings):
    """The method as an Algorithm; a client's state is its v_i."""
    return plain_training.personal_models(network, settings, client_update)


METHOD = register(Method(
    'ditto', ditto, 'Ditto', looks={'Ditto': ('#882255', '-')},
    settings={'personal_l2': Setting(1.0, 'factor λ of (1/2)·‖v_i − w‖², which holds personal weights to the server\'s',
                                     low=0.0)},
    sweep=Sweep('personal_l2', (0.1, 0.5, 1.0, 2.0), server_lr=(0.7, 1.4, 2.0, 2.8),
                small_axis='personal_l2', small_values=(0.1, 1.0))))
