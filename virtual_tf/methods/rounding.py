"""Deltas as they arrive when their values travel in fewer bits."""
import tensorflow as tf

from virtual_tf.core.encoding import MIN_EXPONENT, exponent_of_bits


def round_values(structure, values):
    """The structure as it arrives when its values travel as `values`: itself for float32; leaves [C, …].

    float16 has 11 significant bits but ends at 65,504, below many precisions, so each client scales each tensor by a
    power of two, which is exact. Rounding twice changes nothing more.
    """
    if values == 'float32':
        return structure
    return tf.nest.map_structure(_round_to_half, structure)


def _round_to_half(value):
    """`encoding.half_exponent` and float16 there and back, in TensorFlow."""
    largest = tf.reduce_max(tf.abs(value), axis=list(range(1, value.shape.rank)), keepdims=True)
    exponent = tf.maximum(exponent_of_bits(tf.bitcast(largest, tf.int32)), MIN_EXPONENT)
    scale, inverse = (tf.bitcast(tf.bitwise.left_shift(127 + sign * exponent, 23), tf.float32) for sign in (1, -1))
    return tf.cast(tf.cast(value * inverse, tf.float16), tf.float32) * scale
