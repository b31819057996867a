"""The likelihood of a batch: what every method's clients train on."""
import tensorflow as tf
import tensorflow_probability as tfp

from virtual_tf.core import random_streams
from virtual_tf.core.random_streams import Stream
from virtual_tf.networks import gated, layers

tfd = tfp.distributions


def negative_log_likelihood(logits, y, mask):
    """Each client's mean of −log p(y | logits) over its real targets [C]; and sums of loss, hits and targets [C].

    logits: [C, B, …, classes]; y: [C, B, …]; mask: [C, B, …], True for a real target. A client whose mask is all
    False gets a loss of 0 and no gradient.
    """
    axes = list(range(1, y.shape.rank))
    mask = tf.cast(mask, logits.dtype)
    y = tf.maximum(y, 0)
    losses = mask * tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
    hits = mask * tf.cast(tf.argmax(logits, axis=-1, output_type=y.dtype) == y, logits.dtype)
    loss, hits, count = (tf.reduce_sum(value, axis=axes) for value in (losses, hits, mask))
    return loss / tf.maximum(count, 1.0), (loss, hits, count)


def expected_loss(network, weights, private, x, y, mask, keys):
    """One-sample estimate of the likelihood term, summed over clients; and sums of loss, hits and targets [C].

    `joint` (the paper): the gated network's likelihood trains θ and φ_i together. `residual`: θ sees the shared
    network alone, as under `none` and with the same noise; φ_i and the gates see the gated network at the θ that
    there is. The two parts share no gradient, so one backward pass serves both.
    """
    dtype = next(iter(weights.shared.values())).dtype

    def estimate(weights, stream):
        logits = gated.logits(network, weights, x, Stream(random_streams.fold_in(keys, stream), dtype))
        return negative_log_likelihood(logits, y, mask)

    if private != 'residual':
        losses, sums = estimate(weights, 0)
        return tf.reduce_sum(losses), sums
    shared_losses, _ = estimate(gated.without_private(weights.shared), 0)
    frozen = {name: stop_gradient(weight) for name, weight in weights.shared.items()}
    gated_losses, sums = estimate(weights._replace(shared=frozen), 1)
    return tf.reduce_sum(shared_losses) + tf.reduce_sum(gated_losses), sums


def stop_gradient(weight):
    """A weight through which no gradient flows, tensor or tfd.Normal."""
    if layers.is_gaussian(weight):
        return tfd.Normal(tf.stop_gradient(weight.loc), tf.stop_gradient(weight.scale))
    return tf.stop_gradient(weight)
