"""Counter-based random streams, one per client.

Every client draws from a stream of its own, so its numbers depend neither on the clients that it happens to be
stacked with nor on whether XLA compiles the loop. TensorFlow's stateless sampling takes one seed a call and draws
other normals under XLA than in a graph; Threefry-2x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
SC 2011) is elementwise integer arithmetic, so it vectorises over keys and fuses into its consumer.

A key is a pair of uint32 words; keys: [C, 2].
"""
import numpy as np
import tensorflow as tf

# What a stream of random numbers is for; together with the seed, and where they apply the round and the client, this
# is its entropy.
INITIAL_MEANS, SELECTION, SHUFFLE, NOISE, PRIVATE, SPLIT, EVALUATION, VALIDATION, CHOICE, LABEL_SKEW, UNSEEN = range(11)

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_MANTISSA_BITS = 23
_VECTOR = 64   # a multiple of the numbers in any processor's vector


def make_keys(*entropy, ids=(0,)):
    """uint32 [C, 2], a key for each id, all different for different non-negative integers of `entropy`."""
    words = [_seed_sequence(*entropy, int(i)).generate_state(2) for i in ids]
    return np.asarray(words, np.uint32).reshape(-1, 2)


def make_generator(*entropy):
    """A NumPy generator for what is drawn on the host: selections, splits and shuffles."""
    return np.random.Generator(np.random.Philox(_seed_sequence(*entropy)))


def _seed_sequence(*entropy):
    # SeedSequence pads with zeros, so without the length (1,) and (1, 0) would be the same.
    return np.random.SeedSequence([len(entropy), *entropy])


def threefry2x32(key, counter):
    """The 20-round block cipher; key and counter are pairs of uint32 tensors that broadcast."""
    def word(value):
        return tf.constant(value, tf.uint32)

    def rotate(x, bits):
        return tf.bitwise.bitwise_or(tf.bitwise.left_shift(x, word(bits)), tf.bitwise.right_shift(x, word(32 - bits)))

    first, second = key
    schedule = (first, second, tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(first, second), word(_PARITY)))
    x, y = counter[0] + first, counter[1] + second
    for block in range(5):
        for bits in _ROTATIONS[block % 2]:
            x = x + y
            y = tf.bitwise.bitwise_xor(rotate(y, bits), x)
        x = x + schedule[(block + 1) % 3]
        y = y + schedule[(block + 2) % 3] + word(block + 1)
    return x, y


def fold_in(keys, data):
    """New keys [C, 2], one for each value of the integer `data`; from counters that no Stream draws from."""
    data = tf.cast(data, tf.uint32)
    return tf.stack(threefry2x32((keys[:, 0], keys[:, 1]), (data, tf.zeros_like(data))), axis=1)


class Stream:
    """Standard normals for each client in turn; a draw continues where the one before it ended.

    compiled=False keeps XLA out of a graph that is to run where there may be none.
    """

    def __init__(self, keys, dtype=tf.float32, compiled=True):
        self._keys = tf.convert_to_tensor(keys, tf.uint32)
        self._dtype, self._compiled = dtype, compiled
        self._drawn = 0

    def normal(self, shape):
        """[C, *shape]"""
        size = int(np.prod(shape))
        # Compiled where it is drawn step by step; a single draw in eager mode would not repay the compilation.
        sample = _compiled_normals if self._compiled and not tf.executing_eagerly() else _eager_normals
        values = sample(self._keys, tf.constant(self._drawn, tf.uint32), size, self._dtype)
        self._drawn += (size + 1) // 2
        return tf.reshape(values, [-1, *shape])


def _uniforms(keys, start, size, dtype):
    """[C, size] between -1 and 1, from the counters from `start` on; a counter gives two."""
    position = start + tf.cast(tf.range((size + 1) // 2), tf.uint32)[tf.newaxis]
    words = threefry2x32((keys[:, :1], keys[:, 1:]), (position, tf.ones_like(position)))
    bits = tf.concat(words, axis=1)[:, :size]
    # Odd multiples of 2^-23: exact in float32, symmetric, and never an end point.
    mantissa = tf.cast(tf.bitwise.right_shift(bits, tf.constant(32 - _MANTISSA_BITS, tf.uint32)), tf.int32)
    return tf.cast(2 * mantissa + 1, dtype) * 2.0 ** -_MANTISSA_BITS - 1.0


def _normals(keys, start, size, dtype):
    return tf.math.erfinv(_uniforms(keys, start, size, dtype)) * np.sqrt(2.0)


def _eager_normals(keys, start, size, dtype):
    # TensorFlow's erfinv leaves what does not fill a vector at the end of the array to scalar code, which rounds
    # otherwise. With rows of whole vectors there is no such end, so a client's numbers are the same in any cohort.
    whole = tf.pad(_uniforms(keys, start, size, dtype), [[0, 0], [0, -size % _VECTOR]])
    return tf.math.erfinv(whole)[:, :size] * np.sqrt(2.0)


_compiled_normals = tf.function(_normals, jit_compile=True, autograph=False)
