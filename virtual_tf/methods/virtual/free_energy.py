"""The variational free energy of a client, Eq. 3, with the KL terms weighted by β.

    F_i = mean over the batch of −E[log p(y | x, θ, φ_i)] + β/N_i · (KL(q ‖ cavity_prior) + KL(c_i ‖ p(φ)))

It is Eq. 3 divided by N_i, so that a learning rate means the same for every client. Only its gradient is needed
while training: the likelihood's comes from autodiff, the KL's is closed-form.
"""
import tensorflow as tf

from virtual_tf.methods.virtual.gaussian import Moments, NaturalGaussian, power, product, ratio


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
