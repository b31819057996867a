import zlib
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from virtual_tf.core import encoding
from virtual_tf.core.encoding import EncodingError, decode, encode

NATURAL_SHAPES = {'dense_1/kernel': (784, 100), 'dense_2/kernel': (100, 100), 'dense_3/kernel': (100, 10)}


class Pair(NamedTuple):
    chi: np.ndarray
    xi: np.ndarray


class Delta(NamedTuple):
    weighted: dict
    size: np.ndarray


def sparse_pair(shape, share, generator, scale=1.0):
    """Normal numbers at a `share` of the positions, zero elsewhere, the same positions for both."""
    kept = generator.random(shape) < share
    return Pair(*(np.where(kept, scale * generator.normal(size=shape), 0).astype(np.float32) for _ in range(2)))


def message(shapes, share, seed=0):
    generator = np.random.default_rng(seed)
    return {name: sparse_pair(shape, share, generator) for name, shape in shapes.items()}


def zeros_like(nest):
    return {name: Pair(*map(np.zeros_like, pair)) for name, pair in nest.items()}


def assert_equal(first, second):
    assert first.keys() == second.keys()
    for name, pair in first.items():
        assert type(second[name]) is type(pair)
        for a, b in zip(pair, second[name]):
            assert b.dtype == np.float32 and a.shape == b.shape and np.array_equal(a, b)


def seal(body):
    """A body with the checksum that fits it, as an attacker would send it."""
    return body + zlib.crc32(body).to_bytes(4, 'little')


def header_length(nest, values='float32'):
    """magic 4, version and type 2, length 4, text, CRC 4; for each tensor a mode and, in float16, two exponents."""
    return 14 + len(encoding.describe(encoding.flatten(nest))) + len(nest) * (3 if values == 'float16' else 1)


shapes_strategy = st.dictionaries(
    st.sampled_from(['a/kernel', 'b/kernel', 'b/bias', 'c/kernel']),
    st.lists(st.integers(0, 13), max_size=3).map(tuple), min_size=1)


@settings(max_examples=150, deadline=None)
@given(shapes_strategy, st.floats(0, 1), st.integers(0, 2 ** 32 - 1), st.sampled_from(['float32', 'float16']))
def test_decode_inverts_encode_at_every_sparsity_and_no_message_exceeds_dense_by_more_than_its_header(
        shapes, share, seed, values):
    sent = message(shapes, share, seed)
    data = encode(sent, values)
    received = decode(data, zeros_like(sent))
    if values == 'float32':
        assert_equal(sent, received)
    # What has travelled once travels on without further loss.
    assert_equal(received, decode(encode(received, values), sent))
    numbers = sum(array.size for pair in sent.values() for array in pair)
    assert len(data) <= header_length(sent, values) + numbers * encoding.TYPES[values].itemsize


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=40))
def test_any_finite_float32_survives(numbers):
    array = np.array(numbers, np.float32)
    assert np.array_equal(decode(encode({'w': array}), {'w': array})['w'], array)


@pytest.mark.parametrize('largest', [1e-20, 3e-3, 1.0, 65504.0, 1e8, 1e30])
def test_float16_keeps_eleven_bits_whatever_the_size_of_the_numbers(largest):
    array = (largest * np.random.default_rng(0).uniform(0.01, 1, 1000)).astype(np.float32)
    received = decode(encode({'w': array}, 'float16'), {'w': array})['w']
    # Rounding to 11 significant bits is wrong by at most half a unit of the last: 2^-11 of the number.
    assert np.all(np.abs(received - array) <= 2.0 ** -11 * array)


@pytest.mark.parametrize('share', [0.0, 1e-4, 0.01, 0.1, 0.25, 0.5, 0.75, 0.99, 1.0])
def test_the_shorter_form_of_positions_is_taken_for_each_tensor(share):
    sent = message({'w': (100, 100)}, share)
    count = int(np.count_nonzero(sent['w'].chi))
    # A bitmap takes n/8 bytes; gaps take at least one byte each and one for the count.
    assert len(encode(sent)) <= header_length(sent) + 8 * count + min(10_000 // 8, 3 * count + 3)


def test_75_percent_pruning_saves_70_percent_of_the_bytes():
    dense, pruned = (len(encode(message(NATURAL_SHAPES, share))) for share in (1.0, 0.25))
    # 8 bytes a weight against 8/4 + 1/8 = 2.125: 73 % less.
    assert pruned <= 0.3 * dense


def test_all_kinds_of_nests_that_algorithms_send():
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    like = Delta({'a': w, 'b': -w}, np.float32(500.0))
    received = decode(encode(like), like)
    assert isinstance(received, Delta) and received.size == 500.0 and received.size.shape == ()
    assert np.array_equal(received.weighted['b'], -w)
    assert list(encoding.flatten(like)) == ['size', 'weighted/a', 'weighted/b']
    # The order in which a side happens to hold its weights is no part of the message.
    assert encode({'a': w, 'b': -w}) == encode({'b': -w, 'a': w})


def test_the_traffic_of_a_round_is_the_length_of_its_messages():
    generator = np.random.default_rng(0)
    server = {'w': Pair(*generator.normal(size=(2, 5, 3)).astype(np.float32))}
    deltas = {'w': Pair(*(generator.normal(size=(2, 4, 5, 3)) * (np.arange(15).reshape(5, 3) < 2)).astype(np.float32))}
    deltas['w'].chi[2] = np.nan          # dropped: nothing of it travels
    accepted = np.array([True, True, False, True])
    one = {i: {'w': Pair(*(part[i] for part in deltas['w']))} for i in np.flatnonzero(accepted)}
    shrink = {'w': np.where(np.arange(15).reshape(5, 3) == 7, 0.25, 1.0).astype(np.float32)}
    traffic = encoding.traffic(server, deltas, shrink, accepted, 'float32')
    assert traffic == {'bytes_up': sum(len(encode(delta)) for delta in one.values()),
                       # All four receive the server's state, the accepted three also r.
                       'bytes_down': 4 * len(encode(server)) + 3 * len(encode({'w': 1 - shrink['w']})),
                       # 3 clients, 2 positions, χ and ξ
                       'parameters_up': 12}
    assert encoding.traffic(server, deltas, {}, accepted, 'float32')['bytes_down'] == 4 * len(encode(server))


@pytest.mark.parametrize('array, reason', [
    (np.array([1.0, np.nan], np.float32), 'not finite'), (np.array([np.inf], np.float32), 'not finite'),
    (np.array([1.0]), 'float32')])
def test_what_cannot_be_sent_is_not_encoded(array, reason):
    with pytest.raises(EncodingError, match=reason):
        encode({'w': array})


def test_a_number_that_float16_would_round_to_infinity_is_not_encoded():
    with pytest.raises(EncodingError, match='values=float32'):
        encode({'w': np.array([np.finfo(np.float32).max])}, 'float16')


SMALL = message({'a/kernel': (7, 5), 'b/kernel': (40, 30), 'b/bias': (3,)}, 0.05)
LIKE = zeros_like(SMALL)


@pytest.mark.parametrize('values', ['float32', 'float16'])
def test_every_truncation_and_every_extension_is_refused(values):
    data = encode(SMALL, values)
    for length in range(len(data)):
        with pytest.raises(EncodingError):
            decode(data[:length], LIKE)
    for length in range(len(data) - 4):
        with pytest.raises(EncodingError):
            decode(seal(data[:length]), LIKE)
    for tail in (b'\0', data[-4:], data):
        with pytest.raises(EncodingError):
            decode(data + tail, LIKE)
        with pytest.raises(EncodingError):
            decode(seal(data[:-4] + tail), LIKE)


def test_every_single_flipped_bit_is_refused():
    data = encode(SMALL)
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(EncodingError):
                decode(bytes(damaged), LIKE)


def refused_or_legal(data):
    """Whatever comes in: EncodingError, or an update of the right structure with finite numbers."""
    try:
        received = decode(data, LIKE)
    except EncodingError:
        return
    assert zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], 'little')
    assert received.keys() == LIKE.keys()
    for name, pair in received.items():
        for array, expected in zip(pair, LIKE[name]):
            assert array.shape == expected.shape and array.dtype == np.float32 and np.isfinite(array).all()


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_blobs_are_refused(blob, with_header):
    head = encoding.MAGIC + bytes([encoding.VERSION, 0]) if with_header else b''
    refused_or_legal(head + blob)
    refused_or_legal(seal(head + blob))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(['float32', 'float16']), st.data())
def test_changed_messages_with_a_fitting_checksum_are_refused_or_legal(values, data):
    body = bytearray(encode(SMALL, values)[:-4])
    start = len(body) - data.draw(st.integers(1, len(body)))
    for position in data.draw(st.lists(st.integers(start, len(body) - 1), min_size=1, max_size=6)):
        body[position] = data.draw(st.integers(0, 255))
    refused_or_legal(seal(bytes(body)))


def tensor_body(tensor, like, code=0, version=encoding.VERSION):
    """A sealed message of one tensor whose bytes are given."""
    structure = encoding.describe(encoding.flatten(like))
    return seal(encoding.MAGIC + bytes([version, code]) + len(structure).to_bytes(4, 'little') + structure + tensor)


ONE = {'w': np.zeros(10, np.float32)}
VALUE = np.float32(1.0).tobytes()


@pytest.mark.parametrize('tensor, reason', [
    (bytes([3]) + 10 * VALUE, 'mode 3'),
    (bytes([2, 1, 10]) + VALUE, 'position 10 of 10'),
    (bytes([2, 2, 9, 0]) + 2 * VALUE, 'position 10 of 10'),
    (bytes([2, 11]) + bytes(11) + 11 * VALUE, '11 values for 10'),
    (bytes([2, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]) + VALUE, 'values for 10'),       # 2^35 − 1 values
    (bytes([2, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]) + VALUE, 'overlong'),
    (bytes([2, 1, 0x80, 0x00]) + VALUE, 'overlong'),                             # 0 in two bytes
    (bytes([2, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]) + VALUE, 'position'),
    (bytes([1, 0x00, 0x20]) + VALUE, 'position 10 of 10'),                       # a bit in the padding
    (bytes([1, 0x80]), 'ends'),
    (bytes([1, 0xC0, 0x00]) + VALUE, 'ends'),
    (bytes([1, 0x80, 0x00]) + 2 * VALUE, '4 bytes follow'),
    (bytes([0]) + 9 * VALUE, 'ends'),
    (bytes([2, 1, 0]) + np.float32(np.nan).tobytes(), 'not finite'),
    (bytes([2, 1, 0]) + np.float32(-np.inf).tobytes(), 'not finite'),
])
def test_hostile_tensors_are_refused_for_the_right_reason(tensor, reason):
    with pytest.raises(EncodingError, match=reason):
        decode(tensor_body(tensor, ONE), ONE)


def test_positions_cannot_be_sent_twice():
    # A gap is stored less one, so the smallest that can be written is the next position.
    received = decode(tensor_body(bytes([2, 2, 0, 0]) + VALUE + np.float32(2.0).tobytes(), ONE), ONE)
    assert np.array_equal(received['w'], [1, 2] + 8 * [0])


@pytest.mark.parametrize('exponent, reason', [(114, 'outside'), (-101 % 256, 'outside'), (113, 'not finite')])
def test_hostile_exponents_are_refused(exponent, reason):
    tensor = bytes([2, exponent, 1, 0]) + np.float16(65504).tobytes()
    with pytest.raises(EncodingError, match=reason):
        decode(tensor_body(tensor, ONE, code=1), ONE)


@pytest.mark.parametrize('like', [
    {'v': np.zeros(10, np.float32)}, {'w': np.zeros(11, np.float32)}, {'w': np.zeros((2, 5), np.float32)},
    {'w': Pair(np.zeros(10, np.float32), np.zeros(10, np.float32))}, ONE | {'x': np.zeros(1, np.float32)}])
def test_another_structure_is_refused(like):
    with pytest.raises(EncodingError, match='another network'):
        decode(encode(ONE), like)


def test_other_versions_and_types_are_refused():
    for code, version, reason in ((0, 2, 'version 2'), (2, 1, 'value type 2')):
        with pytest.raises(EncodingError, match=reason):
            decode(tensor_body(bytes([2, 0]), ONE, code, version), ONE)
    with pytest.raises(EncodingError, match='bytes'):
        decode('text', ONE)


def test_an_absurd_length_takes_no_memory():
    body = encoding.MAGIC + bytes([encoding.VERSION, 0]) + (2 ** 32 - 1).to_bytes(4, 'little') + b'w'
    with pytest.raises(EncodingError, match='ends'):
        decode(seal(body), ONE)
