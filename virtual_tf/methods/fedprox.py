"""FedProx (Sahu et al. 2018): FedAvg whose clients also pay (l2/2)·‖w − w₀‖² for leaving the server's weights w₀."""
import tensorflow as tf

from virtual_tf.core.settings import Setting
from virtual_tf.methods import fedavg as averaging
from virtual_tf.methods.registry import Method, Sweep, register


def fedprox(network, settings):
    """The method as an Algorithm; with l2 = 0 it is FedAvg itself."""
    if settings.l2 == 0:
        return averaging.fedavg(network, settings)
    return averaging.fedavg(network, settings, averaging.Penalty(
        value=lambda weights, server: 0.5 * settings.l2 * squared_distance(weights, server),
        gradient=lambda weight, start: settings.l2 * (weight - start)))


def squared_distance(weights, server):
    """‖w − w₀‖² of each client [C]."""
    return tf.add_n([tf.reduce_sum(tf.square(value - server[name]), axis=list(range(1, value.shape.rank)))
                     for name, value in weights.items()])


METHOD = register(Method(
    'fedprox', fedprox, 'FedProx', looks={'FedProx': ('#009E73', (0, (1.5, 1)))},
    settings={'l2': Setting(0.01, 'factor of (1/2)·‖w − w₀‖²', low=0.0), **averaging.METHOD.settings},
    sweep=Sweep('l2', (1e-5, 1e-4, 1e-3, 1e-2), server_lr=(0.7, 1.4, 2.0, 2.8),
                small_axis='l2', small_values=(1e-4, 1e-3))))
