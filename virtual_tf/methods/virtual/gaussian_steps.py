"""How one step of a client moves a Gaussian weight: its mean by SGD, its precision by SGD or by natural gradient.

For F = E_q[ℓ] + w·KL(q ‖ p) with w = β/N and p of precision ξ_p, the stationary precision is ξ_p + E_q[∂²ℓ/∂θ²] / w.
Price's theorem has E_q[∂²ℓ/∂θ²] = (∂E_q[ℓ]/∂σ) / σ, and that derivative comes with the mean's. So the residual
r = ξ_p + (∂E_q[ℓ]/∂σ) / (σ·w) − ξ costs nothing, and

    ξ ← ξ + ρ·r + ρ²·r² / (2ξ)

is positive for every r (Lin, Schmidt, Khan 2020).
"""
import tensorflow as tf

from virtual_tf.core.client_axis import over_clients
from virtual_tf.methods.virtual.coordinates import COORDINATES
from virtual_tf.methods.virtual.free_energy import implicit_gradient
from virtual_tf.methods.virtual.gaussian import Moments

MAX_FACTOR = 2.0     # by which one step may change a precision


def gaussian_step(settings):
    """The function (parameters, likelihood, target, weight, share) → parameters of one Gaussian weight [C, …].

    likelihood: gradient of the likelihood term as Moments; target: NaturalGaussian of the KL term; weight [C]: β/N;
    share [C]: 0 for a client that stands still, else 1.
    """
    coordinates = COORDINATES[settings.parameterisation]
    rate = settings.client_lr

    def step(parameters, likelihood, target, weight, share):
        moments = coordinates.decode(parameters)
        weight, share = (over_clients(value, moments.mean) for value in (weight, share))
        # The rate of natural parameters is not that of μ and σ: there the step stays explicit.
        gradient = implicit_gradient(likelihood, moments, target, weight, rate if coordinates.are_moments else 0.0)
        if settings.precision_update == 'natural':
            moved = Moments(moments.mean - rate * share * gradient.mean, natural_scale(
                moments.scale, likelihood.scale, target.xi, weight, settings.precision_step * share))
        else:
            moved = tf.nest.map_structure(
                lambda p, g: p - rate * share * g, parameters, coordinates.pull_back(parameters, gradient))
        return coordinates.clamp(moved, settings.min_scale, settings.max_scale)
    return step


def natural_scale(scale, of_likelihood, target_xi, weight, step):
    """σ after a natural-gradient step ρ of its precision; of_likelihood is ∂E_q[ℓ]/∂σ.

    With d = r/ξ the rule reads ξ ← ξ·(1 + ρd + ρ²d²/2), which needs no division by σ.
    """
    change = step * (scale * (scale * target_xi + of_likelihood / weight) - 1.0)
    factor = 1.0 + change + 0.5 * tf.square(change)
    return scale * tf.math.rsqrt(tf.clip_by_value(factor, 1.0 / MAX_FACTOR, MAX_FACTOR))
