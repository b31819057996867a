"""FedProx (Sahu et al. 2018): FedAvg whose clients also pay (l2/2)·‖w − w₀‖² for leaving the server's weights w₀."""
from virtual_tf.core.settings import Setting
from virtual_tf.methods import fedavg as averaging
from virtual_tf.methods.registry import Method, Sweep, register


def fedprox(network, settings):
    """The method as an Algorithm; with l2 = 0 it is FedAvg itself."""
    return averaging.fedavg(network, settings, settings.l2)


METHOD = register(Method(
    'fedprox', fedprox, 'FedProx',
    looks={'FedProx': ('#009E73', (0, (1.5, 1))), 'FedProx, tuned': ('#66C2A5', (0, (1.5, 1)))},
    settings={'l2': Setting(0.01, 'factor of (1/2)·‖w − w₀‖²', low=0.0), **averaging.METHOD.settings},
    sweep=Sweep('l2', (1e-5, 1e-4, 1e-3, 1e-2), server_lr=(0.7, 1.4, 2.0, 2.8),
                small_axis='l2', small_values=(1e-4, 1e-3))))
