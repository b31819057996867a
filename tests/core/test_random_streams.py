import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from virtual_tf.core import random_streams

# kat_vectors of Random123 (Salmon et al. 2011): threefry2x32, 20 rounds.
KNOWN_ANSWERS = (
    ((0, 0), (0, 0), (0x6b200159, 0x99ba4efe)),
    ((0xffffffff, 0xffffffff), (0xffffffff, 0xffffffff), (0x1cb996fc, 0xbb002be7)),
    ((0x13198a2e, 0x03707344), (0x243f6a88, 0x85a308d3), (0xc4923a9c, 0x483df7a0)))


def words(*values):
    return tuple(tf.constant(value, tf.uint32) for value in values)


@pytest.mark.parametrize('key, counter, answer', KNOWN_ANSWERS)
def test_threefry_gives_the_published_answers(key, counter, answer):
    assert tuple(int(word) for word in random_streams.threefry2x32(words(*key), words(*counter))) == answer


def test_threefry_is_the_same_under_xla():
    key, counter = words([1, 2, 3], [4, 5, 6]), words([7, 8, 9], [10, 11, 12])
    compiled = tf.function(random_streams.threefry2x32, jit_compile=True)(key, counter)
    assert np.array_equal(random_streams.threefry2x32(key, counter), compiled)


def test_draws_are_standard_normal():
    draws = random_streams.Stream(random_streams.make_keys(3, ids=range(4))).normal((20_000,)).numpy()
    for row in draws:
        # A right generator fails at this level once in a thousand seeds; the seed is fixed.
        assert scipy.stats.kstest(row, 'norm').pvalue > 1e-3


def test_clients_and_successive_draws_are_uncorrelated():
    stream = random_streams.Stream(random_streams.make_keys(3, ids=range(3)))
    rows = np.concatenate([stream.normal((5000,)), stream.normal((5000,))])
    correlation = np.corrcoef(rows) - np.eye(6)
    # The correlation of independent samples has standard deviation 1/√n; 15 pairs stay within 4 of them.
    assert np.abs(correlation).max() < 4 / np.sqrt(5000)


def test_the_two_halves_of_a_draw_are_uncorrelated():
    # Both words of a block are used, the first words for the first half.
    draw = random_streams.Stream(random_streams.make_keys(3)).normal((10_000,)).numpy()[0]
    assert abs(np.corrcoef(draw[:5000], draw[5000:])[0, 1]) < 4 / np.sqrt(5000)


@pytest.mark.parametrize('jit_compile', [None, False, True])
@pytest.mark.parametrize('size', [1, 21, 1000, 10_007])
def test_a_client_draws_the_same_in_any_cohort(size, jit_compile):
    # The last numbers of an array are computed by other code than those before: sizes that fill no vector, and the
    # last row of one cohort in the midst of another.
    def draw(keys):
        return random_streams.Stream(keys).normal((size,))

    if jit_compile is not None:   # None: eager
        draw = tf.function(draw, jit_compile=jit_compile, autograph=False)
    keys = random_streams.make_keys(1, ids=range(23))
    together = draw(keys).numpy()
    for ids in ([2], [22], [5, 4], [22, 1, 7], list(range(22, -1, -1))):
        assert np.array_equal(draw(keys[ids]), together[ids])


def test_erfinv_of_whole_vectors_does_not_depend_on_what_is_beside_them():
    """What the eager draw rests on; a single number may differ by an ulp, and does on x86."""
    x = tf.constant(np.random.default_rng(0).uniform(-1, 1, 4096), tf.float32)
    vectors = tf.split(x, 4096 // random_streams._VECTOR)
    assert np.array_equal(tf.math.erfinv(x), tf.concat([tf.math.erfinv(vector) for vector in vectors], axis=0))


def test_a_draw_continues_where_the_one_before_it_ended():
    keys = random_streams.make_keys(1)
    stream = random_streams.Stream(keys)
    parts = np.concatenate([stream.normal((4,)), stream.normal((3,)), stream.normal((6,))], axis=1)[0]
    assert len(np.unique(parts)) == 13
    assert np.array_equal(random_streams.Stream(keys).normal((4,))[0], parts[:4])


def test_normals_under_xla_are_those_of_the_graph():
    keys = random_streams.make_keys(5, ids=range(3))

    def draw():
        return random_streams.Stream(keys).normal((4000,))

    # The bits agree; the two erfinv may round differently.
    np.testing.assert_allclose(tf.function(draw, jit_compile=True)(), tf.function(draw)(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize('dtype', [tf.float32, tf.float64])
def test_the_extreme_bits_give_finite_symmetric_normals(monkeypatch, dtype):
    monkeypatch.setattr(random_streams, 'threefry2x32', lambda key, counter: (
        tf.zeros_like(counter[0]), tf.fill(counter[0].shape, tf.constant(0xffffffff, tf.uint32))))
    low, high = random_streams.Stream(random_streams.make_keys(0), dtype).normal((2,)).numpy()[0]
    # The smallest and largest odd multiples of 2^-23 are 2^-23 away from ∓1.
    assert high == -low
    np.testing.assert_allclose(high, np.sqrt(2) * scipy.special.erfinv(1 - 2.0 ** -23), rtol=1e-3)


def test_fold_in_makes_a_new_stream_for_each_value_and_key():
    keys = random_streams.make_keys(0, ids=range(3))
    folded = np.concatenate([keys, *(random_streams.fold_in(keys, tf.constant(i)) for i in range(4))])
    assert len(np.unique(folded, axis=0)) == 15


def test_keys_differ_by_every_integer_of_the_entropy_and_by_id():
    keys = [random_streams.make_keys(*entropy, ids=(i,))[0]
            for entropy in ((0, 1), (1, 0), (1, 1), (0, 2), (2, 1)) for i in (0, 1, 2)]
    assert len(np.unique(keys, axis=0)) == 15


def test_a_generator_gives_the_same_numbers_for_the_same_entropy_and_others_for_other():
    def draw(*entropy):
        return random_streams.make_generator(*entropy).integers(2 ** 62)

    assert draw(1, 2, 3) == draw(1, 2, 3)
    assert len({draw(1, 2, 3), draw(1, 2, 4), draw(1, 3, 2), draw(2, 2, 3)}) == 4
