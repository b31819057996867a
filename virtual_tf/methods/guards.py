"""Guards against clients that run away without becoming infinite. Both act before anything is sent.

`clip_scale` keeps a client's gradient within a norm. `backtrack` shortens what a client has found until its own
objective is no worse than where it started. Neither looks at another client.
"""
import tensorflow as tf

from virtual_tf.core.client_axis import over_clients

SHARES = (1.0, 0.5, 0.25)     # then nothing


def clip_scale(gradients, max_norm):
    """The factor [C] that brings a client's gradients [C, …] to a joint norm of at most max_norm; 0 is any norm.

    A factor and not the gradients, which would cost another pass over weight-sized tensors.
    """
    leaves = tf.nest.flatten(gradients)
    if not max_norm:
        return tf.ones([leaves[0].shape[0]], leaves[0].dtype)
    return max_norm / tf.maximum(tf.sqrt(tf.add_n([_sum_of_squares(leaf) for leaf in leaves])), max_norm)


def _sum_of_squares(leaf):
    """[C] of [C, …], its rows added up by a product: XLA vectorises that on a CPU, and not a sum of squares."""
    columns = leaf.shape[-1] if leaf.shape.rank > 1 else 1
    rows = tf.reshape(tf.square(leaf), [leaf.shape[0], -1, columns])
    return tf.reduce_sum(tf.matmul(tf.ones([*rows.shape[:2], 1], leaf.dtype), rows, transpose_a=True), axis=[1, 2])


def backtrack(objective, between):
    """The share [C] of what each client has found that it keeps: the first of SHARES whose objective is no worse than
    that of 0, else 0. A number that is not finite counts as worse.

    between(share [C]) → what lies that far from the start; objective(of it) → [C]
    """
    at_start = objective(between(0.0))

    def shorten(i, share, _):
        worse = ~(objective(between(share)) <= at_start)
        following = tf.constant([*SHARES[1:], 0.0])[i]
        return i + 1, tf.where(worse, following, share), worse

    _, share, _ = tf.while_loop(
        lambda i, _, worse: (i < len(SHARES)) & tf.reduce_any(worse), shorten,
        (tf.constant(0), tf.ones_like(at_start), tf.ones_like(at_start, tf.bool)))
    return share


def kept(settings, objective, between, found):
    """What of `found` a client keeps, as `between` has it; and whether that is less than all of it, as 0 or 1 [C]."""
    if not settings.backtracking:
        return found, tf.zeros([tf.nest.flatten(found)[0].shape[0]], tf.int32)
    share = backtrack(objective, between)
    return between(share), tf.cast(share < 1.0, tf.int32)


def line(start, end):
    """The function of a share [C] that goes straight from one nest of tensors to another; 0 is the start whatever the
    end is, 1 the end to the bit."""
    def at(share):
        def point(a, b):
            part = over_clients(tf.convert_to_tensor(share, b.dtype), b)
            return tf.where(part == 0.0, a, tf.where(part == 1.0, b, a + part * (b - a)))
        return tf.nest.map_structure(point, start, end)
    return at
