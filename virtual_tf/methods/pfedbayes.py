"""pFedBayes (Zhang, Li, Li, Guo, Shang 2022): a personal Gaussian for each client, held to a global one.

    objective   min over s of Σ F_i(s) / K,  F_i(s) = min over q_i of E_{q_i}[N_i ℓ] + ζ·KL(q_i ‖ s)
    client      s_i = s and its own q_i; for each batch a step each in turn:
                q_i down E_q[ℓ] + (ζ/N_i)·KL(q_i ‖ s_i),   then   s_i down KL(q_i ‖ s_i)
    server      (μ, σ) of s: the mean of those of the s_i, weighted by N_i

A client deploys q_i. Both steps are linearly implicit in the KL term; the noise has the deviation of the belief.
"""
from functools import partial

import tensorflow as tf

from virtual_tf.core import random_streams
from virtual_tf.core.client_axis import all_finite, for_each_client, over_clients
from virtual_tf.core.settings import Setting
from virtual_tf.methods import gaussian_averaging, guards, local_sgd, plain_training
from virtual_tf.methods.gaussian_averaging import NO_PRIVATE, as_virtual, natural
from virtual_tf.methods.registry import Method, Sweep, register
from virtual_tf.methods.virtual import gaussian
from virtual_tf.methods.virtual.coordinates import COORDINATES
from virtual_tf.methods.virtual.gaussian import Moments, from_moments, normals
from virtual_tf.methods.virtual.gaussian_steps import gaussian_step
from virtual_tf.methods.virtual.local_inference import mean_free_energy
from virtual_tf.networks import gated
from virtual_tf.networks.likelihood import expected_loss

COORDINATE = COORDINATES['mean_scale']


def kl_gradient_of_second(own, copy):
    """∂KL(own ‖ N(μ, σ²)) by the copy's μ and σ, as Moments."""
    distance = copy.mean - own.mean
    return Moments(distance / tf.square(copy.scale),
                   1.0 / copy.scale - (tf.square(own.scale) + tf.square(distance)) / tf.pow(copy.scale, 3))


def follow(own, copy, rate):
    """The copy after a step down KL(own ‖ copy), divided by 1 + rate·Fisher: 1/σ² by μ, 2/σ² by σ.

    σ stays positive, and no rate is too large: the limit is a Newton step.
    """
    fisher = 1.0 / tf.square(copy.scale)
    gradient = kl_gradient_of_second(own, copy)
    return Moments(copy.mean - rate * gradient.mean / (1.0 + rate * fisher),
                   copy.scale - rate * gradient.scale / (1.0 + 2.0 * rate * fisher))


def client_update(network, settings, server, clients, cohort):
    of_client = as_virtual(settings, kl_weight=settings.zeta)
    step_of, weight = gaussian_step(of_client), settings.zeta / tf.cast(cohort.size, tf.float32)
    received = for_each_client(server, cohort.size.shape[0])

    def gradient(state, x, y, mask, step):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(state['own'])
            loss, sums = expected_loss(network, gated.without_private(normals(state['own'])), 'none', x, y, mask,
                                       random_streams.fold_in(cohort.keys, step))
        return tape.gradient(loss, state['own']), sums

    def move(state, gradients, share, scale):
        own = {name: step_of(value, gradients[name], from_moments(*state['copy'][name]), weight, share, scale)
               for name, value in state['own'].items()}
        return {'own': own, 'copy': {name: COORDINATE.clamp(
            follow(own[name], value, over_clients(settings.global_lr * share, value.mean)),
            settings.min_scale, settings.max_scale) for name, value in state['copy'].items()}}

    found, fit = local_sgd.sgd(gradient, move, {'own': clients, 'copy': received}, cohort, settings.max_gradient_norm)
    start, end = (natural(clients), natural(received)), (natural(found['own']), natural(found['copy']))
    # What the two steps descend is held against the copy as it is, not as it was received.
    (own, copy), shortened = guards.kept(settings, lambda pair: mean_free_energy(
        network, of_client, pair[0], NO_PRIVATE, pair[1], cohort), guards.line(start, end), end)
    deltas = plain_training.weighed_deltas(settings, server, gaussian.to_moments(copy), cohort)
    trained = plain_training.Trained(own, fit, all_finite(found), shortened)
    training = plain_training.training([trained], deltas)
    kl = gaussian.kl_divergence(gaussian.to_normal(own), gaussian.to_normal(copy))
    return gaussian.to_moments(own), deltas, training._replace(details=training.details | {'kl/shared': kl})


def pfedbayes(network, settings):
    """The method as an Algorithm; a client's state is its q_i."""
    return gaussian_averaging.algorithm(network, settings, COORDINATE, partial(client_update, network, settings))


METHOD = register(Method(
    'pfedbayes', pfedbayes, 'pFedBayes', gaussian=True, looks={'pFedBayes': ('#AA4499', (0, (1, 1)))},
    check=lambda settings: gaussian_averaging.check(settings, kl_weight=settings.zeta),
    settings={'zeta': Setting(10.0, 'weight ζ of KL(q_i ‖ s_i), which holds personal beliefs to the global one',
                              low=0.0),
              'global_lr': Setting(0.001, 'rate of the step by which s_i follows q_i', above=0.0),
              **gaussian_averaging.STEP_SETTINGS},
    sweep=Sweep('zeta', (0.1, 1.0, 10.0, 100.0), server_lr=(0.25, 0.5, 0.7, 0.85),
                small_axis='zeta', small_values=(1.0, 10.0))))
