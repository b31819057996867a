"""Flower's SecAgg+ between a server and clients in one process, some of whom leave on the way."""
import copy
import functools
import itertools
import types

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.supercore.task_identity import TaskIdentity

from virtual_tf.deploy import fleet as fleets
from virtual_tf.deploy import secure, units
from virtual_tf.deploy.messages import Failure, Instruction, Reply
from virtual_tf.deploy.protocol import Order

REPORT = {'loss': 0.5, 'accuracy': 0.75, 'details': {}, 'scores': {}}
STEPS = {client: [units.STEP * np.arange(6.0).reshape(2, 3) * (client + 1), np.full(4, 0.5 * client)]
         for client in range(5)}
INSTRUCTION = Instruction('a' * 32, 1, Order(77, 0, b'', ()), 0.5, 1.0, 2, {}, False, True, b'state')


class Grid:
    """Node 100 + i is client i; act(client, stage, answer) gives what it answers, None for nothing."""

    def __init__(self, clients, act):
        self._contexts = {100 + i: Context(1, 100 + i, {}, RecordDict(), {}) for i in range(clients)}
        self._act, self._numbers, self._replies = act, itertools.count(1), {}

    def get_node_ids(self):
        return list(self._contexts)

    def push_messages(self, messages):
        for message in messages:
            message.metadata.__dict__['_message_id'] = str(next(self._numbers))
            node = message.metadata.dst_node_id
            stage = message.content.config_records[RECORD_KEY_CONFIGS][Key.STAGE]
            self._replies[message.metadata.message_id] = self._act(
                node - 100, stage, functools.partial(self._answer, copy.deepcopy(message)))
        return [message.metadata.message_id for message in messages]

    def _answer(self, message, **changes):
        context = self._contexts[message.metadata.dst_node_id]
        return secaggplus_mod(message, context, functools.partial(train, **changes))

    def pull_messages(self, numbers):
        return [self._replies.pop(number) for number in numbers if self._replies.get(number)]


def train(message, context, weight=1):
    client = context.node_id - 100
    content = secure.pack_reply(Reply(client, 77, True, REPORT, b''), STEPS[client])
    content.metric_records['fitres.num_examples']['num_examples'] = weight
    return Message(content, reply_to=message)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    for name in ('_run_id', '_node_id', '_task_id'):
        monkeypatch.setattr(TaskIdentity, name, 1)
    now = types.SimpleNamespace(seconds=0.0)

    def sleep(seconds):
        now.seconds += seconds or 0.01
    monkeypatch.setattr(fleets, 'time', types.SimpleNamespace(monotonic=lambda: now.seconds, sleep=sleep))


def play(clients, act=lambda client, stage, answer: answer()):
    """(fleet, outcome) of one round."""
    fleet = secure.SecureFleet(Grid(clients, act), clients, {}, 60.0, 40.0,
                               run_context=Context(1, 1, {}, RecordDict(), {}))
    fleet._nodes = {i: 100 + i for i in range(clients)}
    fleet._known = {*fleet._nodes.values()}
    return fleet, fleet.exchange({client: INSTRUCTION for client in range(clients)})


def assert_sum(fleet, clients):
    for total, *parts in zip(fleet.total, *(STEPS[client] for client in clients)):
        np.testing.assert_allclose(total, sum(parts), atol=1e-3 * units.STEP)


@pytest.mark.parametrize('clients', [3, 4, 5])
def test_the_server_gets_the_sum(clients):
    fleet, outcome = play(clients)
    assert_sum(fleet, range(clients))
    assert {client: (reply.client, reply.delta) for client, reply in outcome.items()} == {
        client: (client, b'') for client in range(clients)}
    assert fleet.masked_bytes > 8 * 10 * clients


@pytest.mark.parametrize('clients', [4, 5])
@pytest.mark.parametrize('stage, counts', [(Stage.SETUP, False), (Stage.SHARE_KEYS, False),
                                           (Stage.COLLECT_MASKED_VECTORS, False), (Stage.UNMASK, True)])
def test_a_client_may_leave_at_any_stage(clients, stage, counts):
    """Once its masked delta is with the server it counts, and the client learns so by the next message's head."""
    gone = []

    def act(client, now, answer):
        if client == 2 and (now == stage or gone):
            gone.append(now)
            return None
        return answer()

    fleet, outcome = play(clients, act)
    assert gone[0] == stage
    assert_sum(fleet, {*range(clients)} - (set() if counts else {2}))
    assert {client for client, reply in outcome.items() if isinstance(reply, Reply)} == (
        {*range(clients)} - (set() if counts else {2}))
    assert counts or outcome[2].kind == 'late'


def test_a_client_s_error_is_named():
    def act(client, stage, answer):
        if client == 1 and stage == Stage.COLLECT_MASKED_VECTORS:
            message = answer()
            return types.SimpleNamespace(metadata=message.metadata, has_error=lambda: True,
                                         error=types.SimpleNamespace(reason='its folder is lost', code=1))
        return answer()

    fleet, outcome = play(4, act)
    assert_sum(fleet, [0, 2, 3])
    assert outcome[1] == Failure('failed', 'its folder is lost')


def spoil(client, change):
    def act(number, stage, answer):
        message = answer()
        if number == client and stage == Stage.COLLECT_MASKED_VECTORS:
            change(message.content)
        return message
    return act


@pytest.mark.parametrize('change', [
    lambda content: content.config_records.pop(RECORD_KEY_CONFIGS),
    lambda content: content.config_records[RECORD_KEY_CONFIGS].update({Key.MASKED_PARAMETERS: [b'no array']}),
    lambda content: content.config_records['fitres.metrics'].update({'json': '{"client": 3'})],
    ids=['no record', 'no array', 'no json'])
def test_a_malformed_message_ends_the_round_and_not_the_server(change):
    _, outcome = play(4, spoil(1, change))
    assert {reply.kind for reply in outcome.values()} == {'refused'}


@pytest.mark.parametrize('weight', [0, 7])
def test_a_weight_other_than_one_is_seen_in_the_sum(weight):
    """It would change every client's share, and the factors that they keep would not be what the server applied."""
    def act(client, stage, answer):
        return answer(weight=weight) if client == 1 and stage == Stage.COLLECT_MASKED_VECTORS else answer()

    _, outcome = play(4, act)
    assert {reply.kind for reply in outcome.values()} == {'refused'}
