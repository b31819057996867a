"""What a client deploys need not be what it sends: its model goes on training on the client alone.

E' epochs of plain SGD on the client's loss from where its visit has ended, without noise and regulariser. Nothing of it
is sent, so the server's model stays what it is.
"""
import tensorflow as tf

from virtual_tf.core import random_streams
from virtual_tf.core.settings import Setting
from virtual_tf.methods import guards, local_sgd
from virtual_tf.networks.likelihood import expected_loss

SETTINGS = {'fine_tune': Setting(
    0, 'epochs E\' for which the model that a client deploys goes on training after the visit, never sent', low=0)}


def fine_tune(network, settings, weights, cohort):
    """The shared weights {name: [C, …]} of gated.Weights of tensors after E' epochs more; private ones stand still."""
    if not settings.fine_tune:
        return weights.shared

    def loss_of(shared, x, y, mask, step):
        return expected_loss(network, weights._replace(shared=shared), 'joint', x, y, mask,
                             random_streams.fold_in(cohort.keys, step))

    def gradient(shared, x, y, mask, step):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(shared)
            loss, sums = loss_of(shared, x, y, mask, step)
        return tape.gradient(loss, shared), sums

    longer = local_sgd.with_epochs(cohort, settings.epochs, settings.fine_tune)
    tuned, _ = local_sgd.sgd(
        gradient, local_sgd.descend(settings.client_lr), weights.shared, longer, settings.max_gradient_norm)

    def objective(shared):
        return local_sgd.mean_loss(lambda *batch: loss_of(shared, *batch)[1], cohort, settings.epochs)
    return guards.kept(settings, objective, guards.line(weights.shared, tuned), tuned)[0]
