"""E epochs of SGD on all clients of a cohort at once, as one loop to be compiled.

Clients are stacked on the leading axis and share no parameter, so the gradient of the *sum* of their losses holds the
gradient of each. Clients of unequal size are exact: the plan of batches marks what is no example, and a client whose
own epochs are done stands still while the others go on.
"""
import math
from typing import NamedTuple

import tensorflow as tf

from virtual_tf.core.client_axis import over_clients
from virtual_tf.methods import guards


class Fit(NamedTuple):
    """How a client's epochs went; leaves [C]."""
    loss: tf.Tensor        # mean over all targets that it saw
    accuracy: tf.Tensor
    clipped: tf.Tensor     # number of steps whose gradient was clipped


def fused(function):
    """Compiles elementwise work over whole networks into one pass, also where XLA does not compile the rest."""
    return tf.function(function, jit_compile=True, autograph=False)


def compiled(client_update, settings):
    """A method's client_update as the tf.function that it has to be."""
    return tf.function(client_update, jit_compile=settings.compile == 'xla', autograph=False)


def sgd(gradient, move, start, cohort, max_norm=0.0):
    """Minimises each client's objective; returns parameters like `start` and the Fit of the round.

    gradient(parameters, x, y, mask, step) → gradients of a nest, sums of loss, hits and targets [C]
    move(parameters, gradients, share [C], scale [C]) → parameters after a step along scale·gradients; a client whose
        share is 0 stands still, the others have 1
    max_norm: norm to which the scale clips a client's gradients, 0 for none
    """
    taken = tf.reduce_any(cohort.batches >= 0, axis=2)                      # [C, T]
    steps = tf.reduce_max(tf.reduce_sum(tf.cast(taken, tf.int32), axis=1))
    totals = [tf.zeros(cohort.size.shape, tf.nest.flatten(start)[0].dtype)] * 4
    move = fused(move)

    def step(t, parameters, totals):
        gradients, sums = gradient(parameters, *batch(cohort, t), t)
        share, scale = tf.cast(taken[:, t], totals[0].dtype), guards.clip_scale(gradients, max_norm)
        clipped = share * tf.cast(scale < 1.0, share.dtype)
        totals = [total + value for total, value in zip(totals, (*sums, clipped))]
        return t + 1, move(parameters, gradients, share, scale), totals

    _, parameters, (loss, hits, count, clipped) = tf.while_loop(
        lambda t, *_: t < steps, step, (tf.constant(0), start, totals))
    return parameters, Fit(loss / count, hits / count, tf.cast(clipped, tf.int32))


def descend(rate, project=lambda parameters: parameters):
    """The move of plain gradient descent: p − rate·g; `project` brings parameters back to where they are legal."""
    def move(parameters, gradients, share, scale):
        return project(tf.nest.map_structure(
            lambda p, g: p - over_clients(rate * share * scale, p) * g, parameters, gradients))
    return move


def batch(cohort, step):
    """x [C, B, …], y and mask, True for a real target, of a step of the plan."""
    positions = cohort.batches[:, step]
    x, y = (_rows(value, tf.maximum(positions, 0)) for value in (cohort.x, cohort.y))
    chosen = tf.reshape(positions >= 0, [*positions.shape] + [1] * (y.shape.rank - 2))
    return x, y, chosen & (y >= 0)


def _rows(values, positions):
    """values[c, positions[c]] of each client; flat, since compiled code copies long rows faster than small images."""
    flat = tf.reshape(values, [*values.shape[:2], math.prod(values.shape[2:])])
    return tf.reshape(tf.gather(flat, positions, batch_dims=1), [*positions.shape, *values.shape[2:]])


def with_epochs(cohort, epochs, wanted):
    """The cohort with a plan of `wanted` epochs, which repeats the `epochs` that it has, or begins as they do."""
    steps = tf.reduce_sum(tf.cast(tf.reduce_any(cohort.batches >= 0, axis=2), tf.int32), axis=1, keepdims=True)
    of_epoch, longest = -(-steps // epochs), -(-cohort.batches.shape[1] // epochs)
    t = tf.range(longest * wanted)[tf.newaxis]
    batches = tf.gather(cohort.batches, t % tf.maximum(steps, 1), batch_dims=1)
    return cohort._replace(batches=tf.where((t < of_epoch * wanted)[..., tf.newaxis], batches, -1))


def mean_loss(evaluate, cohort, epochs):
    """Mean loss [C] over a client's data, in the batches of its first epoch.

    evaluate(x, y, mask, step) → sums of loss, hits and targets [C]
    """
    once = with_epochs(cohort, epochs, 1)
    zero = tf.zeros(cohort.size.shape, tf.float32)

    def step(t, loss, count):
        of_batch, _, targets = evaluate(*batch(once, t), t)
        return t + 1, loss + of_batch, count + targets

    _, loss, count = tf.while_loop(lambda t, *_: t < once.batches.shape[1], step, (tf.constant(0), zero, zero))
    return loss / count
