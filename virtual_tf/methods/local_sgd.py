"""E epochs of SGD on all clients of a cohort at once, as one loop to be compiled.

Clients are stacked on the leading axis and share no parameter, so the gradient of the *sum* of their losses holds the
gradient of each. Clients of unequal size are exact: the plan of batches marks what is no example, and a client whose
own epochs are done stands still while the others go on.
"""
import tensorflow as tf

from virtual_tf.core.client_axis import over_clients


def fused(function):
    """Compiles elementwise work over whole networks into one pass, also where XLA does not compile the rest."""
    return tf.function(function, jit_compile=True, autograph=False)


def compiled(client_update, settings):
    """A method's client_update as the tf.function that it has to be."""
    return tf.function(client_update, jit_compile=settings.compile == 'xla', autograph=False)


def sgd(gradient, project, start, cohort, learning_rate):
    """Minimises each client's objective; returns parameters like `start` and (loss, accuracy) [C] over the round.

    gradient(parameters, x, y, mask, step) → gradients like the parameters, sums of loss, hits and targets [C]
    project(parameters) → parameters, moved back to where they are legal
    """
    taken = tf.reduce_any(cohort.batches >= 0, axis=2)                      # [C, T]
    steps = tf.reduce_max(tf.reduce_sum(tf.cast(taken, tf.int32), axis=1))
    totals = [tf.zeros(cohort.size.shape, tf.nest.flatten(start)[0].dtype)] * 3

    def step(t, parameters, totals):
        positions = cohort.batches[:, t]
        x, y = (tf.gather(value, tf.maximum(positions, 0), batch_dims=1) for value in (cohort.x, cohort.y))
        chosen = tf.reshape(positions >= 0, [*positions.shape] + [1] * (y.shape.rank - 2))
        mask = chosen & (y >= 0)
        gradients, sums = gradient(parameters, x, y, mask, t)
        moved = move(parameters, gradients, learning_rate * tf.cast(taken[:, t], tf.float32))
        return t + 1, moved, [total + value for total, value in zip(totals, sums)]

    @fused
    def move(parameters, gradients, rate):
        return project(tf.nest.map_structure(lambda p, g: p - over_clients(rate, p) * g, parameters, gradients))

    _, parameters, (loss, hits, count) = tf.while_loop(
        lambda t, *_: t < steps, step, (tf.constant(0), start, totals))
    return parameters, (loss / count, hits / count)
