"""The variational free energy of a client, Eq. 3, with the KL terms weighted by β.

    F_i = mean over the batch of −E[log p(y | x, θ, φ_i)] + β/N_i · (KL(q ‖ cavity_prior) + KL(c_i ‖ p(φ)))

It is Eq. 3 divided by N_i, so that a learning rate means the same for every client. Only its gradient is needed
while training: the likelihood's comes from autodiff, the KL's is closed-form.
"""
import tensorflow as tf
import tensorflow_probability as tfp

from virtual_tf.core import random_streams
from virtual_tf.core.random_streams import Stream
from virtual_tf.methods.virtual.gaussian import Moments, NaturalGaussian, power, product, ratio
from virtual_tf.networks import layers, models

tfd = tfp.distributions


def cavity(posterior, factor):
    """s / s_i: what the server knows without client i; Algorithm 1, line 7."""
    return ratio(posterior, factor)


def cavity_prior(prior, cavity_of_client, weight):
    """p^{w_i} · s / s_i: what the client regularises towards; Algorithm 1, line 7."""
    return product(power(prior, weight), cavity_of_client)


def regulariser(target, posterior, min_precision):
    """The cavity prior, with (mean of s, precision m) where its precision falls below m; and how many did: [C].

    Other clients' factors may be sharper than the posterior, which leaves a cavity that is no distribution. Only the
    regulariser is floored; the factor is always computed from the cavity as it is.
    """
    floored, count = {}, 0
    for name, value in target.items():
        improper = value.xi < min_precision
        mean = posterior[name].chi / posterior[name].xi
        floored[name] = NaturalGaussian(tf.where(improper, min_precision * mean, value.chi),
                                        tf.where(improper, tf.cast(min_precision, value.xi.dtype), value.xi))
        count += tf.reduce_sum(tf.cast(improper, tf.int32), axis=list(range(1, improper.shape.rank)))
    return floored, count


def kl_gradient(moments, target):
    """∂KL(N(μ, σ²) ‖ target) as Moments: ξ_p·μ − χ_p and ξ_p·σ − 1/σ, with no division by ξ_p."""
    return Moments(target.xi * moments.mean - target.chi, target.xi * moments.scale - 1.0 / moments.scale)


def implicit_gradient(likelihood, moments, target, weight, rate):
    """(likelihood + weight·∂KL) / (1 + rate·weight·∂²KL) as Moments; ∂²KL is ξ_p by μ and ξ_p + 1/σ² by σ.

    A step of SGD at this rate is then linearly implicit in the KL term. It rests where the free energy does, as an
    explicit one cannot once rate·weight·ξ_p exceeds 2 in μ or 1 in σ; and ξ_p grows round by round.
    """
    curvature = Moments(target.xi, target.xi + 1.0 / tf.square(moments.scale))
    return Moments(*((of_likelihood + weight * of_kl) / (1.0 + rate * weight * second) for of_likelihood, of_kl, second
                     in zip(likelihood, kl_gradient(moments, target), curvature)))


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
        logits = models.logits(network, weights, x, Stream(random_streams.fold_in(keys, stream), dtype))
        return negative_log_likelihood(logits, y, mask)

    if private != 'residual':
        losses, sums = estimate(weights, 0)
        return tf.reduce_sum(losses), sums
    shared_losses, _ = estimate(models.Weights(weights.shared), 0)
    frozen = {name: stop_gradient(weight) for name, weight in weights.shared.items()}
    gated_losses, sums = estimate(weights._replace(shared=frozen), 1)
    return tf.reduce_sum(shared_losses) + tf.reduce_sum(gated_losses), sums


def stop_gradient(weight):
    """A weight through which no gradient flows, tensor or tfd.Normal."""
    if layers.is_gaussian(weight):
        return tfd.Normal(tf.stop_gradient(weight.loc), tf.stop_gradient(weight.scale))
    return tf.stop_gradient(weight)
