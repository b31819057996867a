"""Sparse updates: a client's delta is pruned by signal-to-noise ratio before it travels ("Inducing sparse updates").

    score      how much an element of Δ_i says: |Δχ| over a standard deviation's inverse
    sent       what travels: the elements with the highest scores, rounded to the values' type
    residual   Δ_i / sent, what was held back; with error feedback the client carries it over to its next visit

All functions are pure, act on dicts {name: NaturalGaussian [C, …]} and compile under XLA as in graph mode.
"""
import itertools

import tensorflow as tf

from virtual_tf.methods.rounding import round_values
from virtual_tf.methods.virtual.gaussian import NaturalGaussian, product, ratio

_TINY = 1e-30


def compressor(names, settings):
    """The function (deltas, factors, carried) → (sent, residual) that these settings ask for.

    residual is {} where nobody needs it; without pruning, rounding and error feedback the deltas pass untouched.
    """
    groups = prune_groups(names, settings.prune_scope, settings.prune_output)
    wants_residual = settings.error_feedback or settings.factor_bookkeeping == 'authors'

    def compress(deltas, factors, carried):
        if not (settings.prune or settings.error_feedback or settings.values == 'float16'):
            return deltas, {}
        proposed = product(deltas, carried) if settings.error_feedback else deltas
        sent = proposed
        if settings.prune:
            sent = prune(proposed, scores(proposed, factors, settings.prune_score), settings.prune, groups)
        sent = round_values(sent, settings.values)
        return sent, ratio(proposed, sent) if wants_residual else {}
    return compress


def prune_groups(names, scope, output):
    """Lists of names that share one percentile, a layer's or all; without the last layer unless `output`."""
    layers = {}
    for name in names:
        layers.setdefault(name.split('/')[0], []).append(name)
    groups = list(layers.values())
    if not output:
        groups = groups[:-1]     # names are in the order of the layers
    return groups if scope == 'layer' or not groups else [list(itertools.chain(*groups))]


def scores(deltas, factors, kind):
    """Signal-to-noise ratio of each element of the deltas: {name: [C, …]}, never negative.

    update: |Δχ|/√|Δξ|, the textbook ratio |μ|/σ of the Gaussian Δ_i. authors: |Δχ|/√|ξ| with ξ of the new factor
    s_i·Δ_i. Where the precision under the root is 0 the ratio is as good as infinite, or 0 if Δχ is 0 too.
    """
    def score(delta, factor):
        xi = delta.xi if kind == 'update' else factor.xi + delta.xi
        return tf.abs(delta.chi) / tf.sqrt(tf.maximum(tf.abs(xi), _TINY))
    return {name: score(deltas[name], factors[name]) for name in deltas}


def prune(deltas, of_scores, percent, groups):
    """Deltas without the `percent` of each group with the lowest scores: there both χ and ξ are zero."""
    kept = {}
    for names in groups:
        flat = [tf.reshape(of_scores[name], [of_scores[name].shape[0], -1]) for name in names]
        sizes = [part.shape[1] for part in flat]
        total = sum(sizes)
        masks = tf.split(highest(tf.concat(flat, axis=1), total - total * percent // 100), sizes, axis=1)
        kept |= {name: tf.reshape(mask, of_scores[name].shape) for name, mask in zip(names, masks)}
    return {name: NaturalGaussian(*(tf.where(kept[name], value, 0.0) for value in delta)) if name in kept else delta
            for name, delta in deltas.items()}


def highest(values, count):
    """True for exactly `count` of each row's highest values; values: [C, n] ≥ 0, the first of equal ones win.

    The bits of non-negative floats are ordered like the floats, so 31 halvings find the threshold exactly: XLA's
    sort and top_k take twenty times as long on a CPU.
    """
    bits = tf.bitcast(values, tf.int32)

    def halve(position, threshold):
        candidate = tf.bitwise.bitwise_or(threshold, tf.bitwise.left_shift(1, 30 - position))
        return position + 1, tf.where(_count(bits >= candidate) >= count, candidate, threshold)

    start = tf.zeros([values.shape[0], 1], tf.int32)
    _, threshold = tf.while_loop(lambda position, _: position < 31, halve, (tf.constant(0), start))
    above, tied = bits > threshold, bits == threshold
    return above | (tied & (tf.cumsum(tf.cast(tied, tf.int32), axis=1) <= count - _count(above)))


def _count(mask):
    return tf.reduce_sum(tf.cast(mask, tf.int32), axis=1, keepdims=True)
