"""FedPer (Arivazhagan et al. 2019): a base that all share, and a head of its own for each client.

    objective   min over the base b and all heads h_i of Σ N_i F_i(b, h_i)
    client      (b_i, h_i): SGD on F_i over both at once, from the server's b and the client's own h_i, which stays
    server      b ← b + η_s · Σ N_i (b_i − b) / Σ N_i

The head is the last layer that has weights, or more of them. The server has no head, so there is no S to test; with an
empty head this is FedAvg.
"""
from functools import partial

from virtual_tf.core.client_axis import aggregate, for_each_client
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import Setting
from virtual_tf.methods import local_sgd, plain_training
from virtual_tf.methods.interface import Algorithm
from virtual_tf.methods.registry import Method, Sweep, register
from virtual_tf.networks import gated

HEAD_LAYERS = Setting(1, 'layers with weights, from the last one back, that each client has for itself', low=0)
SWEEP = Sweep('server_lr', (0.7, 1.0, 1.4, 2.0), server_lr=(0.5, 2.8, 4.0, 5.6),
              small_axis='server_lr', small_values=(1.0, 1.4))


def head_names(network, count):
    """Names of the weights of the last `count` layers that have any."""
    layers = list(network.gate_shapes())
    if count >= len(layers):
        raise VirtualTfError(f'head_layers = {count} leaves nothing to share of a network with {len(layers)} layers '
                             'that have weights; use fewer, or --method=local')
    own = layers[len(layers) - count:]
    return [name for name in network.shapes() if name.split('/')[0] in own]


def train_together(network, settings, base, head, cohort):
    """(all weights, [Trained])"""
    trained = plain_training.train(network, settings, gated.without_private(base | head), cohort)
    return trained.weights.shared, [trained]


def client_update(network, settings, train, own, server, clients, cohort):
    base = for_each_client(server, cohort.size.shape[0])
    found, runs = train(network, settings, base, {name: clients[name] for name in own}, cohort)
    deltas = plain_training.weighed_deltas(settings, server, {name: found[name] for name in server}, cohort)
    return found, deltas, plain_training.training(runs, deltas)


def shared_base(network, settings, train):
    """The method as an Algorithm; a client's state is its whole network, the base as it was trained last."""
    own = head_names(network, settings.head_layers)
    initial = partial(plain_training.initial_weights, network, settings)

    def init(seed):
        return {name: value for name, value in initial(seed).items() if name not in own}

    def init_clients(server, weight, keys):
        return for_each_client(initial(settings.seed) | server, len(weight))

    return Algorithm(
        init, init_clients, local_sgd.compiled(partial(client_update, network, settings, train, own), settings),
        aggregate, partial(plain_training.server_update, settings), plain_training.commit,
        server_model=None if own else plain_training.server_model, client_models=gated.without_private,
        no_delta=plain_training.no_delta)


METHOD = register(Method(
    'fedper', partial(shared_base, train=train_together), 'FedPer', looks={'FedPer': ('#44AA99', (0, (5, 1)))},
    settings={'head_layers': HEAD_LAYERS}, sweep=SWEEP, learns_server=False))
