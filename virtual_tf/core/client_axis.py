"""What is done along the leading axis of clients, whatever the algorithm."""
import numpy as np
import tensorflow as tf


def for_each_client(structure, clients):
    """The same values for every client: […] → [C, …]"""
    return tf.nest.map_structure(lambda value: tf.broadcast_to(value, [clients, *value.shape]), structure)


def over_clients(value, like):
    """A scalar as it is, a vector [C] as [C, 1, …, 1], in the type of `like`."""
    value = tf.cast(value, like.dtype)
    return value if value.shape.rank == 0 else tf.reshape(value, [-1] + [1] * (like.shape.rank - 1))


def aggregate(deltas, accepted):
    """Algorithm 1, line 10: the product of the accepted clients' deltas, which is the sum of their parameters."""
    return tf.nest.map_structure(lambda value: tf.reduce_sum(_where_accepted(accepted, value, 0.0), axis=0), deltas)


def keep_accepted(updated, previous, accepted):
    """The updated states, with the previous one for a client that was dropped."""
    return tf.nest.map_structure(lambda new, old: _where_accepted(accepted, new, old), updated, previous)


def all_finite(structure):
    """[C], True where every number of a client is finite."""
    checks = [tf.reduce_all(tf.math.is_finite(value), axis=list(range(1, value.shape.rank)))
              for value in tf.nest.flatten(structure)]
    return tf.reduce_all(tf.stack(checks), axis=0)


def in_groups(sizes, per_call):
    """Rows of a cohort in groups of `per_call` (0: all in one), the largest clients first.

    A compiled loop runs as long as its largest client, so clients of similar size go together. The last group is filled
    up with repeats of the smallest, so that all have one shape and are traced once; `ungroup` drops them.
    """
    count = len(sizes)
    if not 0 < per_call < count:
        return [np.arange(count)]
    order = np.argsort(-sizes, kind='stable')
    return list(np.pad(order, (0, -count % per_call), mode='edge').reshape(-1, per_call))


def take(structure, rows):
    """These rows of every leaf."""
    return tf.nest.map_structure(lambda leaf: tf.gather(leaf, rows), structure)


def ungroup(results, groups):
    """The results of all groups in the order of the cohort [C, …]."""
    if len(groups) == 1:
        return results[0]
    _, first = np.unique(np.concatenate(groups), return_index=True)
    return tf.nest.map_structure(lambda *parts: tf.gather(tf.concat(parts, axis=0), first), *results)


def _where_accepted(accepted, new, old):
    return tf.where(tf.reshape(accepted, [-1] + [1] * (new.shape.rank - 1)), new, old)
