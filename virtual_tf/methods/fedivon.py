"""FedIVON: federated averaging of variational Newton steps (Pal, Gupta, Sarwar, Rai 2024).

    objective   min over s of Σ p_i KL(s ‖ q_i), with p_i = N_i / Σ N
    client      q_i = argmin over q of E_q[N_i ℓ] + β·KL(q ‖ s), from q = s, its precisions by natural gradient:
                they rest where ξ = ξ_s + (N_i/β)·E_q[∂²ℓ/∂θ²]
    server      ξ = Σ p_i ξ_i, μ = Σ p_i ξ_i μ_i / ξ

A client deploys its q_i. Means move by SGD that is implicit in the KL term, as VIRTUAL's do, and not by the
preconditioned step of IVON.
"""
import dataclasses
from functools import partial

from virtual_tf.methods import gaussian_averaging
from virtual_tf.methods.registry import Method, Sweep, register
from virtual_tf.methods.virtual.coordinates import COORDINATES


def fedivon(network, settings):
    """The method as an Algorithm."""
    coordinates = COORDINATES['natural']
    return gaussian_averaging.algorithm(network, settings, coordinates, partial(
        gaussian_averaging.client_update, network, settings, coordinates, 1.0))


SETTINGS = gaussian_averaging.SETTINGS | {'precision_update': dataclasses.replace(
    gaussian_averaging.SETTINGS['precision_update'], default='natural', absent=None)}
METHOD = register(Method(
    'fedivon', fedivon, 'FedIVON', gaussian=True, check=gaussian_averaging.check, settings=SETTINGS,
    looks={'FedIVON': ('#661100', (0, (4, 2)))},
    sweep=Sweep('kl_weight', (0.001, 0.01, 0.1, 1.0), server_lr=(0.25, 0.5, 0.7, 0.85),
                small_axis='kl_weight', small_values=(0.01, 1.0))))
