"""What a client deploys need not be what it sends: its model goes on training on the client alone.

E' epochs of plain SGD on the client's loss from where its visit has ended, without noise and regulariser. Nothing of it
is sent, so the server's model stays what it is.
"""
from virtual_tf.core.settings import Setting
from virtual_tf.methods import plain_training
from virtual_tf.networks import gated

SETTINGS = {'fine_tune': Setting(
    0, 'epochs E\' for which the model that a client deploys goes on training after the visit, never sent', low=0)}


def fine_tune(network, settings, weights, cohort):
    """The shared weights {name: [C, …]} of gated.Weights of tensors after E' epochs more; private ones stand still."""
    if not settings.fine_tune:
        return weights.shared
    return plain_training.train(
        network, settings, gated.without_private(weights.shared), cohort, held=weights._replace(shared={}),
        private='joint', epochs=settings.fine_tune).weights.shared
