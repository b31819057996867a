"""pFedMe (Dinh, Tran, Nguyen 2020): the server minimises Moreau envelopes of the clients' losses.

    objective   min over w of Σ N_i · min over θ_i of F_i(θ_i) + (λ/2)·‖θ_i − w‖²
    client      w_i = θ_i = w; for each batch R steps
                θ_i ← (θ_i − η_c·∇F_i(θ_i) + η_c λ·w_i) / (1 + η_c λ),   then   w_i ← w_i − ηλ·(w_i − θ_i)
    server      w ← w + η_s · Σ N_i (w_i − w) / Σ N_i; the paper's β is η_s

A client deploys θ_i. Its steps are implicit in the quadratic term: they rest where explicit ones do, which would need
η_c·λ < 2. A round costs R of FedAvg's.
"""
import tensorflow as tf

from virtual_tf.core import random_streams
from virtual_tf.core.client_axis import all_finite, for_each_client, over_clients
from virtual_tf.core.settings import Setting
from virtual_tf.methods import guards, local_sgd, plain_training
from virtual_tf.methods.registry import Method, Sweep, register
from virtual_tf.networks import gated
from virtual_tf.networks.likelihood import expected_loss


def client_update(network, settings, server, clients, cohort):
    attraction, rate = settings.envelope_l2, settings.client_lr
    received = for_each_client(server, cohort.size.shape[0])

    def loss_of(personal, x, y, mask, step):
        return expected_loss(network, gated.without_private(personal), 'none', x, y, mask,
                             random_streams.fold_in(cohort.keys, step))

    def direction(state, *batch):
        """What is subtracted from the state for a batch."""
        def refine(i, personal, totals):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(personal)
                loss, sums = loss_of(personal, *batch)
            gradients = tape.gradient(loss, personal)
            scale = guards.clip_scale(gradients, settings.max_gradient_norm)
            moved = {name: (value - over_clients(rate * scale, value) * gradients[name]
                            + rate * attraction * state['shared'][name]) / (1.0 + rate * attraction)
                     for name, value in personal.items()}
            clipped = tf.cast(scale < 1.0, scale.dtype)
            return i + 1, moved, [total + value for total, value in zip(totals, (*sums, clipped))]

        _, personal, (*sums, clipped) = tf.while_loop(
            lambda i, *_: i < settings.personal_steps, refine,
            (tf.constant(0), state['personal'], [tf.zeros(cohort.size.shape)] * 4))
        return {'shared': {name: settings.envelope_lr * attraction * (value - personal[name])
                           for name, value in state['shared'].items()},
                'personal': {name: value - personal[name] for name, value in state['personal'].items()},
                'clipped': -clipped}, sums

    def objective(found):
        loss = local_sgd.mean_loss(lambda *batch: loss_of(found['personal'], *batch)[1], cohort, settings.epochs)
        return loss + 0.5 * attraction * plain_training.squared_distance(found['personal'], found['shared'])

    start = {'shared': received, 'personal': received}
    found, fit = local_sgd.sgd(
        direction, local_sgd.descend(1.0), start | {'clipped': tf.zeros(cohort.size.shape)}, cohort)
    fit = fit._replace(clipped=tf.cast(found.pop('clipped'), tf.int32))
    finite = all_finite(found)
    found, shortened = guards.kept(settings, objective, guards.line(start, found), found)
    deltas = plain_training.weighed_deltas(settings, server, found['shared'], cohort)
    trained = plain_training.Trained(gated.without_private(found['personal']), fit, finite, shortened)
    return found['personal'], deltas, plain_training.training([trained], deltas)


def pfedme(network, settings):
    """The method as an Algorithm; a client's state is its θ_i."""
    return plain_training.personal_models(network, settings, client_update)


METHOD = register(Method(
    'pfedme', pfedme, 'pFedMe', looks={'pFedMe': ('#332288', (0, (3, 1, 1, 1)))},
    settings={'envelope_l2': Setting(15.0, 'factor λ of (1/2)·‖θ_i − w_i‖²', above=0.0),
              'envelope_lr': Setting(0.005, 'rate η by which w_i follows θ_i: w_i − ηλ(w_i − θ_i)', above=0.0),
              'personal_steps': Setting(5, 'steps R of θ_i for each batch', low=1)},
    sweep=Sweep('envelope_lr', (0.005, 0.01, 0.02, 0.05), server_lr=(0.7, 1.4, 2.0, 2.8),
                small_axis='envelope_lr', small_values=(0.005, 0.02))))
