"""FedRep (Collins, Hassani, Mokhtari, Shakkottai 2021): FedPer whose clients train head and base one after the other.

    objective   min over the base b and all heads h_i of Σ N_i F_i(b, h_i)
    client      h_i: SGD on F_i(b, ·) for E − E_b epochs, with the server's b; then
                b_i: SGD on F_i(·, h_i) for E_b epochs, with the new head
    server      b ← b + η_s · Σ N_i (b_i − b) / Σ N_i
"""
import dataclasses
from functools import partial

import tensorflow as tf

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import Setting
from virtual_tf.methods import fedper, plain_training
from virtual_tf.methods.registry import Method, register
from virtual_tf.networks.gated import without_private


def train_in_turn(network, settings, base, head, cohort):
    """(all weights, [Trained of the head with the loss of both, Trained of the base])

    Where there are too few epochs for both, as for a newcomer's first, the head has them.
    """
    of_base = settings.base_epochs if settings.base_epochs < settings.epochs else 0
    of_head = settings.epochs - of_base
    first = plain_training.train(
        network, settings, without_private(head), cohort, held=without_private(base), epochs=of_head)
    if not of_base:
        return base | first.weights.shared, [first]
    second = plain_training.train(
        network, settings, without_private(base), cohort, held=first.weights, epochs=of_base)
    # An epoch has as many targets as another.
    fit = tf.nest.map_structure(lambda a, b: (of_head * a + of_base * b) / settings.epochs,
                                (first.fit.loss, first.fit.accuracy), (second.fit.loss, second.fit.accuracy))
    found = second.weights.shared | first.weights.shared
    return found, [first._replace(fit=first.fit._replace(loss=fit[0], accuracy=fit[1])), second]


def check(settings):
    if settings.base_epochs >= settings.epochs:
        raise VirtualTfError(f'base_epochs = {settings.base_epochs} of epochs = {settings.epochs} leaves none for the '
                             'head; raise epochs')


METHOD = register(Method(
    'fedrep', partial(fedper.shared_base, train=train_in_turn), 'FedRep', looks={'FedRep': ('#117733', '-.')},
    settings={'head_layers': dataclasses.replace(fedper.HEAD_LAYERS, low=1),
              'base_epochs': Setting(1, 'epochs E_b of a round that train the base, after those of the head', low=1)},
    check=check, sweep=fedper.SWEEP, learns_server=False))
