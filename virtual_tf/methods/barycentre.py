"""BA-BFL: Bayesian federated learning by barycentres (Jamoussi, Serra, Stavrou, Kountouris 2024).

    objective   min over s of Σ p_i D(s, q_i), with p_i = N_i / Σ N and D the reverse KL or Wasserstein-2
    client      q_i = argmin over q of E_q[N_i ℓ] + β·KL(q ‖ s), from q = s
    server      reverse KL: ξ = Σ p_i ξ_i, μ = Σ p_i ξ_i μ_i / ξ;   Wasserstein-2: μ = Σ p_i μ_i, σ = Σ p_i σ_i

A client keeps no factor: what it has said once is in its next prior. It deploys the barycentre of s and q_i with
weights 1/(1 + λ) and λ/(1 + λ), which needs no training.
"""
from functools import partial

from virtual_tf.core.settings import Setting
from virtual_tf.methods import gaussian_averaging
from virtual_tf.methods.registry import Method, Sweep, register
from virtual_tf.methods.virtual.coordinates import COORDINATES

STRAIGHT = {'reverse_kl': 'natural', 'wasserstein': 'mean_scale'}     # coordinates in which a barycentre is a mean


def barycentre(network, settings):
    """The method as an Algorithm."""
    coordinates = COORDINATES[STRAIGHT[settings.divergence]]
    share = settings.own_weight / (1.0 + settings.own_weight)
    return gaussian_averaging.algorithm(network, settings, coordinates, partial(
        gaussian_averaging.client_update, network, settings, coordinates, share))


METHOD = register(Method(
    'barycentre', barycentre, 'Barycentre', gaussian=True, check=gaussian_averaging.check,
    settings={'divergence': Setting('reverse_kl', 'distance from the clients\' Gaussians whose mean is least',
                                    tuple(STRAIGHT)),
              'own_weight': Setting(1.0, 'weight λ of a client\'s own Gaussian, beside the server\'s, in what it has',
                                    low=0.0), **gaussian_averaging.SETTINGS},
    looks={'Barycentre': ('#999933', '-'), 'Barycentre, reverse KL': ('#999933', '--'),
           'Barycentre, Wasserstein-2': ('#DDCC77', '-.')},
    sweep=Sweep('own_weight', (0.25, 0.5, 1.0, 2.0), server_lr=(0.25, 0.5, 0.7, 0.85),
                small_axis='own_weight', small_values=(0.5, 1.0))))
