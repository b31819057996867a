"""A delta of natural parameters in whole steps, as secure aggregation sums them.

SecAgg+ adds integers: a value is clipped to ±CLIP and becomes one of LEVELS steps. Natural parameters have no common
scale (ξ is 625 where χ is 25), so a delta is first measured in what the posterior says of the weight:

    u = Δχ / (32 √ξ)    how hard the mean is pulled, in units of 32 standard deviations of the posterior
    v = Δξ / ξ          by what share the precision changes

both with the ξ that the server has sent, so that the server can undo it for the sum. A client rounds u and v to steps
itself and keeps that delta: so its factor is what the server gets to apply, exactly, and rounding costs no agreement.
"""
import numpy as np

from virtual_tf.methods.virtual.gaussian import NaturalGaussian

# v reaches CLIP where a visit takes σ to less than an eleventh of the posterior's; what goes beyond is counted. Where ξ
# grows like that, χ grows with it, times the mean over σ; so u has a coarser unit. Powers of two: steps are exact.
PULL, CLIP, LEVELS = 32.0, 128.0, 2 ** 22
STEP = 2 * CLIP / LEVELS


def to_steps(delta, server):
    """([u and v of each tensor, float64, in whole steps], at how many weights they were clipped)."""
    values, clipped = [], 0
    for name, posterior in sorted(server.items()):
        xi = np.asarray(posterior.xi, np.float64)
        pair = [np.asarray(part, np.float64) / scale for part, scale in zip(delta[name], (PULL * np.sqrt(xi), xi))]
        # Both by the same factor: one of them alone would throw the mean, which is their ratio.
        excess = np.maximum(np.abs(pair).max(axis=0) / CLIP, 1.0)
        clipped += int(np.sum(excess > 1.0))
        values += [np.round(value / excess / STEP) * STEP for value in pair]
    return values, clipped


def check_whole(values):
    """ValueError if a sum is not of whole steps: somebody has weighed in with another weight than 1."""
    for value in values:
        steps = np.asarray(value, np.float64) / STEP
        if not np.all(np.abs(steps - np.round(steps)) < 1e-2):
            raise ValueError('the sum of the deltas is not one of whole steps')


def from_steps(values, server):
    """The delta, float32, of steps or of a sum of them; sums are brought back to whole steps."""
    values, delta = iter(values), {}
    for name, posterior in sorted(server.items()):
        xi = np.asarray(posterior.xi, np.float64)
        delta[name] = NaturalGaussian(*((np.round(next(values) / STEP) * STEP * scale).astype(np.float32)
                                        for scale in (PULL * np.sqrt(xi), xi)))
    return {name: delta[name] for name in server}
