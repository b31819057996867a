"""How one step of a client moves a Gaussian weight: its mean by SGD, its precision by SGD or by natural gradient.

For F = E_q[ℓ] + w·KL(q ‖ p) with w = β/N and p of precision ξ_p, the stationary precision is ξ_p + E_q[∂²ℓ/∂θ²] / w.
Price's theorem has E_q[∂²ℓ/∂θ²] = (∂E_q[ℓ]/∂σ) / σ, and that derivative comes with the mean's. So the residual
r = ξ_p + (∂E_q[ℓ]/∂σ) / (σ·w) − ξ costs nothing, and with c = ρ·r/ξ

    ξ ← ξ·(1 + c/2 + c²/8)²

is positive for every r. To second order in c it is ξ + ρ·r + ρ²·r²/(2ξ) of Lin, Schmidt, Khan (2020); in σ it takes one
division in place of a root, which is a tenth of the whole step.
"""
import tensorflow as tf

from virtual_tf.core.client_axis import over_clients
from virtual_tf.methods.virtual.coordinates import COORDINATES
from virtual_tf.methods.virtual.free_energy import implicit_gradient
from virtual_tf.methods.virtual.gaussian import Moments

MAX_FACTOR = 2.0     # by which one step may change a precision


def gaussian_step(settings):
    """The function (parameters, likelihood, target, weight, share, scale) → parameters of one Gaussian weight [C, …].

    scale·likelihood: gradient of the likelihood term as Moments; target: NaturalGaussian of the KL term; weight [C]:
    β/N; share [C]: 0 for a client that stands still, else 1.
    """
    coordinates = COORDINATES[settings.parameterisation]
    rate = settings.client_lr

    def step(parameters, likelihood, target, weight, share, scale):
        moments = coordinates.decode(parameters)
        weight, share, scale = (over_clients(value, moments.mean) for value in (weight, share, scale))
        likelihood = Moments(*(scale * value for value in likelihood))
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
    """σ after a natural-gradient step ρ of its precision; of_likelihood is ∂E_q[ℓ]/∂σ."""
    change = step * (scale * (scale * target_xi + of_likelihood * (1.0 / weight)) - 1.0)
    root = 1.0 + 0.5 * change + 0.125 * tf.square(change)
    return scale / tf.clip_by_value(root, MAX_FACTOR ** -0.5, MAX_FACTOR ** 0.5)
