"""Clients behind a Flower grid that is made up: who is silent, comes back, or claims to be another."""
import itertools
import types

import pytest
from flwr.app import MessageType

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.deploy import fleet as fleets
from virtual_tf.deploy import ledger
from virtual_tf.deploy.fleet import Fleet
from virtual_tf.deploy.messages import Failure, Instruction, Introduction, Reply
from virtual_tf.deploy.protocol import Order

REPORT = {'loss': 0.5, 'accuracy': 0.75, 'details': {}, 'scores': {}}


def introduce(client, name='c'):
    return Introduction(client, name, [3], '<f4', [], 2, {'train': (10, 10), 'test': (5, 5)})


def instruct(client):
    return Instruction('a' * 32, 1, Order(77, 0, b'', ()), 0.5, 1.0, 2, {}, False, False, b'state')


class Grid:
    """nodes: {id: Introduction, None for one that never answers, or a reason why it cannot}"""

    def __init__(self, nodes):
        self.nodes, self.asked, self._numbers, self._waiting = nodes, [], itertools.count(1), {}

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        for message in messages:
            number = str(next(self._numbers))
            message.metadata.message_id = number
            self._waiting[number] = message
            self.asked.append((message.metadata.dst_node_id, message.metadata.message_type))
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, numbers):
        return [reply for number in numbers if (reply := self._answer(number))]

    def _answer(self, number):
        message = self._waiting[number]
        says = self.nodes.get(message.metadata.dst_node_id)
        if says is None:
            return None
        failed = isinstance(says, str)
        content = None if failed else (
            fleets.pack_introduction(says) if message.metadata.message_type == MessageType.QUERY else
            fleets.pack_reply(Reply(says.client, 77, True, REPORT, b'delta')))
        return types.SimpleNamespace(
            metadata=types.SimpleNamespace(reply_to_message_id=number), has_error=lambda: failed, content=content,
            error=types.SimpleNamespace(reason=says, code=0))

    def questions(self, node):
        return self.asked.count((node, MessageType.QUERY))


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Time passes only where somebody waits; and messages that belong to no run of Flower's."""
    now = types.SimpleNamespace(seconds=0.0)

    def sleep(seconds):
        now.seconds += seconds or 0.01
    monkeypatch.setattr(fleets, 'time', types.SimpleNamespace(monotonic=lambda: now.seconds, sleep=sleep))
    monkeypatch.setattr(fleets, 'Message', lambda content, ttl, **fields: types.SimpleNamespace(
        content=content, metadata=types.SimpleNamespace(message_id='', **fields)))
    return now


def make(nodes, clients=2, **options):
    grid = Grid(nodes)
    return grid, Fleet(grid, clients, {}, start_timeout=60.0, round_timeout=40.0, **options)


def exchange(fleet, *clients):
    return fleet.exchange({client: instruct(client) for client in clients})


def test_a_node_that_never_says_who_it_is_holds_nobody_up_for_long(clock):
    grid, fleet = make({10: introduce(0), 11: introduce(1)})
    fleet.gather()
    grid.nodes[12] = None
    for longest in (21.0, 1.0, 1.0):
        before = clock.seconds
        assert all(isinstance(reply, Reply) for reply in exchange(fleet, 0, 1).values())
        assert clock.seconds - before < longest
    assert grid.questions(12) == 1
    grid.nodes[12] = introduce(1)     # and when it speaks at last, it is heard
    exchange(fleet, 1)
    assert grid.asked[-1] == (12, MessageType.TRAIN)


def test_all_are_waited_for_and_the_missing_named():
    _, fleet = make({10: introduce(0), 12: None})
    with pytest.raises(VirtualTfError, match=r'after 60 s clients \[1\] of 2'):
        fleet.gather()


def test_a_run_that_goes_on_does_so_without_those_who_are_gone():
    grid, fleet = make({10: introduce(0)})
    fleet.gather({client: introduce(client) for client in range(2)})
    replies = exchange(fleet, 0, 1)
    assert isinstance(replies[0], Reply) and replies[1] == Failure('failed', 'its SuperNode is not connected')
    grid.nodes[11] = introduce(1)
    assert isinstance(exchange(fleet, 1)[1], Reply)


def test_introductions_are_remembered(tmp_path):
    said = {client: introduce(client) for client in (1, 0)}
    assert ledger.recall(tmp_path) == {}
    ledger.remember(tmp_path, said)
    assert ledger.recall(tmp_path) == said


def test_who_was_killed_while_it_introduced_itself_is_asked_again(clock):
    grid, fleet = make({10: introduce(0), 11: 'its process was killed'})
    fleet._meet()
    grid.nodes[11] = introduce(1)
    fleet._meet()
    assert grid.questions(11) == 1     # not at once
    fleet.gather()
    assert grid.questions(11) == 2 and clock.seconds < 30


def test_a_node_that_came_back_under_another_id_takes_its_place():
    grid, fleet = make({10: introduce(0), 11: introduce(1)})
    fleet.gather()
    grid.nodes[12] = introduce(1)     # 11 was killed and still seems to be there
    exchange(fleet, 1)
    assert grid.asked[-1] == (12, MessageType.TRAIN)
    exchange(fleet, 1)
    assert grid.asked[-1] == (12, MessageType.TRAIN) and grid.questions(11) == 1


def test_with_keys_a_number_stays_with_its_node():
    grid, fleet = make({10: introduce(0), 11: introduce(1)}, pinned=True)
    fleet.gather()
    grid.nodes[12] = introduce(1)
    exchange(fleet, 1)
    assert grid.asked[-1] == (11, MessageType.TRAIN)
    del grid.nodes[11]
    assert exchange(fleet, 1)[1].reason == 'its SuperNode is not connected'


@pytest.mark.parametrize('stranger', [introduce(7), introduce(1, 'another')])
def test_strangers_stay_out(stranger):
    grid, fleet = make({10: introduce(0), 11: introduce(1)})
    fleet.gather()
    grid.nodes[12] = stranger
    exchange(fleet, 1)
    assert grid.asked[-1] == (11, MessageType.TRAIN) and grid.questions(12) == 1
