"""What arrives is checked, whatever arrives."""
import json
import zlib

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from virtual_tf.core import encoding
from virtual_tf.deploy import fleet, messages
from virtual_tf.deploy.messages import Failure, Instruction, Introduction, RefusedError, Reply
from virtual_tf.deploy.protocol import Order
from virtual_tf.methods.interface import WeighedDelta
from virtual_tf.methods.virtual.gaussian import NaturalGaussian

SHAPES = {'dense_1/kernel': (3, 4), 'dense_2/kernel': (4, 2)}
SERVER = {name: NaturalGaussian(np.ones(shape, np.float32), np.full(shape, 4, np.float32))
          for name, shape in SHAPES.items()}
DELTA = {name: NaturalGaussian(np.full(shape, 0.5, np.float32), np.zeros(shape, np.float32))
         for name, shape in SHAPES.items()}
INTRODUCTION = Introduction(3, 'c', [3], '<f4', [], 2, {'train': (10, 10), 'test': (5, 5)})
INSTRUCTION = Instruction('run', 7, Order(77, 66, b'r', (55,)), 0.25, 1.0, 2, {'seed': 1}, False, False, b'state')
REPORT = {'loss': 0.5, 'accuracy': 0.75, 'details': {'kl': 1.0}, 'scores': {'mt': {'loss': 1.0, 'hits': [2.0, 3.0]}}}
EXPECTED = {'mt': {'loss': (), 'hits': (2,)}}
REPLY = Reply(3, 77, True, REPORT, encoding.encode(DELTA))


def read(reply, norm_bound=1.0, like=SERVER, server=SERVER):
    return messages.read_delta(reply, INSTRUCTION, INTRODUCTION, like, server, norm_bound)


def test_a_good_delta_is_read_as_it_was_sent():
    for name, sent in DELTA.items():
        np.testing.assert_array_equal(read(REPLY)[name], sent)


def test_messages_survive_flower():
    assert fleet.unpack_instruction(fleet.pack_instruction(INSTRUCTION)) == INSTRUCTION
    assert fleet.unpack_introduction(fleet.pack_introduction(INTRODUCTION)) == INTRODUCTION
    there = fleet.unpack_reply(fleet.pack_reply(REPLY))
    assert there._replace(report=None) == REPLY._replace(report=None)
    assert there.report == json.loads(json.dumps(REPORT))


@pytest.mark.parametrize('change, reason', [
    ({'version': 76}, 'version 76'), ({'client': 4}, 'client 4'), ({'delta': b''}, 'ends|start'),
    ({'delta': encoding.encode({'dense_1/kernel': np.zeros((2, 3), np.float32)})}, 'another network'),
    ({'delta': REPLY.delta[:-1]}, 'checksum|ends')])
def test_another_delta_is_refused(change, reason):
    with pytest.raises(RefusedError, match=reason):
        read(REPLY._replace(**change))


@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(value):
    body = REPLY.delta[:-8] + np.float32(value).tobytes()
    with pytest.raises(RefusedError, match='not finite'):
        read(REPLY._replace(delta=body + zlib.crc32(body).to_bytes(4, 'little')))


def test_the_norm_is_relative_to_the_servers():
    # χ: 0.5 against 1 at every weight; ξ: 0 against 4
    assert messages.relative_norm(DELTA, SERVER) == pytest.approx(0.5)
    read(REPLY, norm_bound=0.51)
    with pytest.raises(RefusedError, match=r'norm_bound is 0\.49'):
        read(REPLY, norm_bound=0.49)


def test_fedavg_counts_the_examples_that_the_client_has():
    server = {name: np.ones(shape, np.float32) for name, shape in SHAPES.items()}
    delta = WeighedDelta({name: 10 * value for name, value in server.items()}, np.float32(10))
    # 10 examples of a difference of 1 at every weight, against weights of 1
    assert messages.relative_norm(delta, server) == pytest.approx(1.0)
    assert read(REPLY._replace(delta=encoding.encode(delta)), 1.1, delta, server).size == 10
    with pytest.raises(RefusedError, match='counts 1e\\+06 examples, the client has 10'):
        read(REPLY._replace(delta=encoding.encode(delta._replace(size=np.float32(1e6)))), 1.1, delta, server)


@pytest.mark.parametrize('change', [{'loss': float('nan')}, {'loss': None}, {'details': {'kl': 'many'}},
                                    {'scores': {}}, {'details': [1]}, {'scores': {'mt': 3}},
                                    {'scores': {'mt': {'loss': float('inf'), 'hits': [2.0, 3.0]}}},
                                    {'scores': {'mt': {'loss': 1.0, 'hits': [2.0]}}}, {'scores': {'mt': {'loss': 1.0}}},
                                    {'scores': {'mt': {'loss': 'much', 'hits': [2.0, 3.0]}}}, {'loss': 10 ** 400},
                                    {'details': {str(i): 1 for i in range(51)}}, {'details': {65 * 'x': 1}}])
def test_a_report_that_would_spoil_the_metrics_is_refused(change):
    messages.check_report(REPORT, EXPECTED)
    with pytest.raises(RefusedError):
        messages.check_report(REPORT | change, EXPECTED)


@given(st.data())
def test_no_damage_gets_through(data):
    """Any few bytes changed, with a checksum that fits: refused, or finite values of the right shapes."""
    body = bytearray(REPLY.delta[:-4])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    body = bytes(body[:data.draw(st.integers(0, len(body)) | st.just(len(body)))])
    try:
        delta = read(REPLY._replace(delta=body + zlib.crc32(body).to_bytes(4, 'little')))
    except RefusedError:
        return
    for name, shape in SHAPES.items():
        assert all(part.shape == shape and np.isfinite(part).all() for part in delta[name])


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(
    inner, max_size=3) | st.dictionaries(st.sampled_from([*Reply._fields, 'x']), inner, max_size=5), max_leaves=8)


class Received:
    """As much of a Flower message as is looked at."""

    def __init__(self, content):
        self.content = content

    def has_error(self):
        return False


@given(st.text(max_size=20) | JSON.map(json.dumps), st.binary(max_size=20))
def test_a_malformed_reply_is_a_failure_and_no_error(text, delta):
    record = RecordDict({'reply': ConfigRecord({'json': text}), 'delta': ArrayRecord([np.frombuffer(delta, np.uint8)])})
    outcome = fleet.read(Received(record), fleet.unpack_reply)
    assert isinstance(outcome, Failure | Reply)


@pytest.mark.parametrize('array', [np.zeros((2, 2), np.uint8), np.zeros(3, np.float32)])
def test_bytes_are_bytes(array):
    record = RecordDict({'reply': ConfigRecord({'json': json.dumps(REPLY._replace(delta=None)._asdict())}),
                         'delta': ArrayRecord([array])})
    assert fleet.read(Received(record), fleet.unpack_reply).kind == 'refused'
    assert fleet.read(Received(RecordDict()), fleet.unpack_reply).kind == 'refused'


@pytest.mark.parametrize('text', [100_000 * '[', '{"client": ' + 5000 * '9' + '}', '\x00'])
@pytest.mark.parametrize('data', [b'', b'PK\x03\x04', b"\x93NUMPY\x01\x00v\x00{'descr': '|u1', 'fortran_order': False, "
                                  b"'shape': (1000000000000000,), }" + 60 * b' ' + b'\n'])
def test_no_bytes_stop_the_server(text, data):
    array = Array(dtype='uint8', shape=(1,), stype='numpy.ndarray', data=data)
    for unpack in (fleet.unpack_reply, fleet.unpack_introduction):
        for described in (text, json.dumps(REPLY._replace(delta=None)._asdict())):
            record = RecordDict({name: ConfigRecord({'json': described}) for name in ('reply', 'introduction')}
                                | {'delta': ArrayRecord({'0': array})})
            assert fleet.read(Received(record), unpack).kind == 'refused'


@pytest.mark.parametrize('change', [
    {'client': '0'}, {'client': -1}, {'client': True}, {'sizes': {'test': (1, 1)}}, {'num_classes': 10 ** 9},
    {'sizes': {'train': (10 ** 11, 5), 'test': (1, 1)}}, {'sizes': {'train': (5, 0), 'test': (1, 1)}},
    {'sizes': {'train': (5,), 'test': (1, 1)}}, {'input_shape': [0]}, {'input_type': 'O'}, {'name': 300 * 'x'}])
def test_an_introduction_that_the_server_would_trip_over_is_refused(change):
    record = fleet.pack_introduction(INTRODUCTION._replace(**change))
    assert fleet.read(Received(record), fleet.unpack_introduction).kind == 'refused'
