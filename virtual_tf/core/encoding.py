"""Updates as bytes: positions and values of what is not zero, with a decoder that trusts nothing.

    magic 'VTFU' | version | value type | length of the structure | structure | tensor … | CRC-32 of all before
    structure    text: name, number of values at a position and shape of each tensor
    tensor       mode | exponents, one byte for each kind of value, if float16 | positions | values, kind after kind
    positions    mode 0: none, all values follow; 1: a bitmap; 2: a count and the gaps between positions as varints

A tensor may hold several values at a position: χ and ξ of a weight share one set of positions. The encoder takes the
shortest mode of each tensor. The decoder knows which structure it expects and compares the text with its own, so no
length in a message decides how much memory is taken. Gaps are stored less one: no position can come twice.
"""
import math
import zlib

import numpy as np

from virtual_tf.core.errors import VirtualTfError

MAGIC, VERSION = b'VTFU', 1
HALF_TOP, MIN_EXPONENT, MAX_EXPONENT = 14, -100, 113     # float16 values are v/2^e with the largest in [2^14, 2^15)
TYPES = {'float32': np.dtype('<f4'), 'float16': np.dtype('<f2')}
DENSE, BITMAP, GAPS = range(3)
_CODES = {name: code for code, name in enumerate(TYPES)}
_MAX_VARINT = 5


class EncodingError(VirtualTfError):
    """Bytes that are no update of the expected structure, or an update that cannot be written as bytes."""


def encode(message, values='float32'):
    """Bytes of a nest of float32 arrays (dicts, and named tuples such as NaturalGaussian); −0 may become 0.

    Where there is no tensor nothing is to be said: no byte.
    """
    tensors = flatten(message)
    if not tensors:
        return b''
    structure = describe(tensors)
    parts = [MAGIC, bytes([VERSION, _CODES[values]]), len(structure).to_bytes(4, 'little'), structure]
    for name, arrays in tensors.items():
        if any(array.dtype != np.float32 for array in arrays):
            raise EncodingError(f'{name} is of type {arrays[0].dtype}; cast it to float32')
        if not all(np.isfinite(array).all() for array in arrays):
            raise EncodingError(f'{name} has values that are not finite; such an update must not be sent')
        parts += _encode_tensor([array.reshape(-1) for array in arrays], values)
    body = b''.join(parts)
    return body + zlib.crc32(body).to_bytes(4, 'little')


def decode(data, like):
    """The message in `data`, float32, in the nest of `like`, which gives structure and shapes; or EncodingError."""
    tensors = flatten(like)
    if not tensors and not data:
        return _pack(like, {})
    reader = _Reader(data)
    if reader.take(len(MAGIC)) != MAGIC:
        raise EncodingError(f'the message does not start with {MAGIC!r}: it is no update of this library')
    version, code = reader.take(2)
    if version != VERSION:
        raise EncodingError(f'the message has format version {version}, this library reads {VERSION}; update the older')
    if code >= len(TYPES):
        raise EncodingError(f'the message has value type {code}, known are 0 to {len(TYPES) - 1}')
    reader.check_crc()
    expected = describe(tensors)
    found = reader.take(int.from_bytes(reader.take(4), 'little'))
    if found != expected:
        raise EncodingError('the update is for another network: expected '
                            f'{_excerpt(expected)}, got {_excerpt(found)}; both sides need the same model and method')
    values = list(TYPES)[code]
    decoded = {name: _decode_tensor(reader, arrays, name, values) for name, arrays in tensors.items()}
    if reader.left():
        raise EncodingError(f'{reader.left()} bytes follow the last tensor; the message was damaged or padded')
    return _pack(like, decoded)


def traffic(server, deltas, shrink, accepted, values):
    """bytes_up, bytes_down and parameters_up of a round: lengths of real messages, and numbers that are not zero.

    server: the state that each selected client receives; deltas: leaves [C, …] of clients of which some are accepted.
    """
    return traffic_up(deltas, accepted, values) | traffic_down(server, shrink, len(accepted), int(np.sum(accepted)))


def traffic_up(deltas, accepted, values):
    """bytes_up and parameters_up: deltas [C, …], of which those of accepted clients [C] travel."""
    stacked = flatten(deltas)
    sent = [{name: tuple(array[i] for array in arrays) for name, arrays in stacked.items()}
            for i in np.flatnonzero(accepted)]
    return {'bytes_up': sum(len(encode(message, values)) for message in sent),
            'parameters_up': sum(int(np.count_nonzero(part)) for message in sent
                                 for parts in message.values() for part in parts)}


def traffic_down(server, shrink, selected, applied):
    """bytes_down: every selected client receives the server's state, always float32.

    Those whose deltas were applied also hear r, as 1 − r, which is zero nearly everywhere.
    """
    confirmation = len(encode({name: 1.0 - np.asarray(r) for name, r in shrink.items()})) if shrink else 0
    return {'bytes_down': len(encode(server)) * selected + confirmation * applied}


def flatten(message):
    """{path: list of arrays of one shape} of a nest, sorted; the fields of a named tuple of arrays share a path."""
    if isinstance(message, dict):
        children = message
    elif isinstance(message, tuple):
        if not any(isinstance(field, dict | tuple) for field in message):
            arrays = [np.asarray(field) for field in message]
            if len({array.shape for array in arrays}) == 1:
                return {'': arrays}
        children = message._asdict()
    else:
        return {'': [np.asarray(message)]}
    return {f'{key}/{path}' if path else key: arrays
            for key, child in sorted(children.items()) for path, arrays in flatten(child).items()}


def describe(tensors):
    """The structure of {path: arrays} as text: b'dense_1/kernel 2 784 100\\n…'"""
    return '\n'.join(' '.join([name, str(len(arrays)), *map(str, arrays[0].shape)])
                     for name, arrays in tensors.items()).encode()


def half_exponent(array):
    """e such that the largest value over 2^e lies in [2^14, 2^15) once it has 11 significant bits."""
    largest = np.abs(array).max(initial=0.0).astype(np.float32)
    return max(int(exponent_of_bits(largest.view(np.int32))), MIN_EXPONENT)


def exponent_of_bits(bits):
    """The same from the bits of a non-negative float32 as integers, NumPy's or TensorFlow's, without the floor."""
    # Half a unit of the 11th bit first, so that rounding up to the next power of two is foreseen.
    return (bits + 0x1000) // 2 ** 23 - 127 - HALF_TOP


def _encode_tensor(arrays, values):
    """Parts of one tensor's bytes; arrays: one [n] for each kind of value."""
    exponents = b''
    if values == 'float16':
        powers = [half_exponent(array) for array in arrays]
        if max(powers) > MAX_EXPONENT:
            raise EncodingError(f'a value near {np.finfo(np.float32).max:g} has no float16 form; use values=float32')
        exponents = np.array(powers, np.int8).tobytes()
        arrays = [array * np.float32(2.0 ** -power) for array, power in zip(arrays, powers)]
    arrays = [array.astype(TYPES[values]) for array in arrays]
    kept = np.logical_or.reduce([array != 0 for array in arrays])
    positions = np.flatnonzero(kept)
    width = sum(array.itemsize for array in arrays)
    coded = {BITMAP: np.packbits(kept).tobytes()}
    if len(positions) < len(coded[BITMAP]):     # a gap takes a byte or more
        coded[GAPS] = _varints(np.append(len(positions), np.diff(positions, prepend=-1) - 1))
    mode = min(coded, key=lambda key: len(coded[key]))
    if len(coded[mode]) >= width * (kept.size - len(positions)):
        return [bytes([DENSE]), exponents, *(array.tobytes() for array in arrays)]
    return [bytes([mode]), exponents, coded[mode], *(array[positions].tobytes() for array in arrays)]


def _decode_tensor(reader, arrays, name, values):
    """One float32 array for each of `arrays`, of its shape."""
    shape, kinds = arrays[0].shape, len(arrays)
    size = math.prod(shape)
    mode, = reader.take(1)
    exponents = np.frombuffer(reader.take(kinds), np.int8) if values == 'float16' else np.zeros(kinds, np.int8)
    if (exponents < MIN_EXPONENT).any() or (exponents > MAX_EXPONENT).any():
        raise EncodingError(f'{name} has exponents {exponents.tolist()} outside [{MIN_EXPONENT}, {MAX_EXPONENT}]')
    if mode == DENSE:
        positions = slice(None)
        count = size
    elif mode in (BITMAP, GAPS):
        positions = reader.bitmap(size, name) if mode == BITMAP else reader.gaps(size, name)
        count = len(positions)
    else:
        raise EncodingError(f'{name} has mode {mode}, known are {DENSE}, {BITMAP} and {GAPS}')
    decoded = []
    for exponent in exponents:
        part = np.frombuffer(reader.take(count * TYPES[values].itemsize), TYPES[values]).astype(np.float32)
        # A hostile exponent may overflow; what comes out is checked.
        with np.errstate(over='ignore', invalid='ignore'):
            part = part * np.float32(2.0 ** int(exponent))
        if not np.isfinite(part).all():
            raise EncodingError(f'{name} has values that are not finite')
        decoded.append(np.zeros(size, np.float32))
        decoded[-1][positions] = part
    return [array.reshape(shape) for array in decoded]


class _Reader:
    """Takes bytes from the front and never beyond the checksum."""

    def __init__(self, data):
        if not isinstance(data, bytes | bytearray | memoryview):
            raise EncodingError(f'a message is bytes, got {type(data).__name__}')
        self._data = bytes(data)
        self._offset, self._end = 0, len(self._data) - 4

    def left(self):
        return self._end - self._offset

    def take(self, count):
        if count > self.left():
            raise EncodingError(f'the message ends after {len(self._data)} bytes, before it is complete')
        self._offset += count
        return self._data[self._offset - count:self._offset]

    def check_crc(self):
        if zlib.crc32(self._data[:self._end]) != int.from_bytes(self._data[self._end:], 'little'):
            raise EncodingError('the checksum does not fit: the message was damaged on its way; send it again')

    def bitmap(self, size, name):
        """Positions of the set bits; the bits beyond the last element are not to be set."""
        bits = np.unpackbits(np.frombuffer(self.take(-(-size // 8)), np.uint8))
        positions = np.flatnonzero(bits)
        if len(positions) and positions[-1] >= size:
            raise EncodingError(f'{name} has a value at position {positions[-1]} of {size}')
        return positions

    def gaps(self, size, name):
        """Ascending positions from their count and gaps."""
        count = int(self.varints(1)[0])
        if count > size:
            raise EncodingError(f'{name} has {count} values for {size} positions')
        positions = np.cumsum(self.varints(count) + 1) - 1
        if count and positions[-1] >= size:
            raise EncodingError(f'{name} has a value at position {positions[-1]} of {size}')
        return positions

    def varints(self, count):
        """int64 [count]; each in base 128, lowest digit first, in as few bytes as it needs."""
        window = np.frombuffer(self._data[self._offset:self._offset + min(_MAX_VARINT * count, self.left())], np.uint8)
        ends = np.flatnonzero(window < 128)[:count]
        if len(ends) < count:
            raise EncodingError('the message ends, or has an overlong number, among its positions')
        if not count:
            return np.zeros(0, np.int64)
        starts = np.append(0, ends[:-1] + 1)
        lengths = ends - starts + 1
        if lengths.max() > _MAX_VARINT or ((lengths > 1) & (window[ends] == 0)).any():
            raise EncodingError('the message has an overlong number among its positions')
        digits = window[:ends[-1] + 1].astype(np.int64) & 127
        places = np.arange(len(digits)) - np.repeat(starts, lengths)
        self.take(len(digits))
        return np.add.reduceat(digits << 7 * places, starts)


def _varints(numbers):
    """Bytes of non-negative integers below 2^35."""
    places = np.arange(_MAX_VARINT)
    digits = numbers[:, np.newaxis] >> 7 * places
    more = digits >= 128
    used = (digits > 0) | (places == 0)
    return (digits & 127 | 128 * more)[used].astype(np.uint8).tobytes()


def _pack(like, decoded, path=''):
    """The decoded arrays in the nest of `like`; the inverse of flatten."""
    if path in decoded:
        return type(like)(*decoded[path]) if isinstance(like, tuple) else decoded[path][0]
    children = like if isinstance(like, dict) else like._asdict()
    packed = {key: _pack(child, decoded, f'{path}/{key}' if path else key) for key, child in children.items()}
    return packed if isinstance(like, dict) else type(like)(**packed)


def _excerpt(structure):
    text = structure[:200].decode(errors='replace').replace('\n', ', ')
    return f'{text!r}' + ('…' if len(structure) > 200 else '')
