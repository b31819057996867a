"""FedProx (Sahu et al. 2018): FedAvg whose clients also pay (l2/2)·‖w − w₀‖² for leaving the server's weights w₀."""
from virtual_tf.methods.fedavg import fedavg


def fedprox(network, settings):
    """The method as an Algorithm; with l2 = 0 it is FedAvg itself."""
    if settings.l2 == 0:
        return fedavg(network, settings)
    return fedavg(network, settings, penalty=lambda weight, start: settings.l2 * (weight - start))
