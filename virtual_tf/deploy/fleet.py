"""The clients of a federation as Flower's nodes: who is where, and an exchange of messages with some of them.

A SuperNode that starts again may come back under another node id, so clients are known by the number that they
introduce themselves with.
"""
import json
import time

import numpy as np
from absl import logging
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict

from virtual_tf.deploy.messages import Failure, Instruction, Introduction, Reply
from virtual_tf.deploy.protocol import Order
from virtual_tf.types import VirtualTfError

_POLL = 0.25     # seconds between two looks


class Fleet:
    """All clients, numbered 0 to K − 1, behind a Flower grid."""

    def __init__(self, grid, clients, settings, start_timeout, round_timeout):
        self._grid, self._clients, self._settings = grid, clients, settings
        self._start_timeout, self._round_timeout = start_timeout, round_timeout
        self._nodes = {}          # client → node id
        self._strangers = set()   # nodes whose introduction was refused
        self.introductions = {}   # client → Introduction

    def gather(self):
        """Waits until every client has introduced itself."""
        deadline = time.monotonic() + self._start_timeout
        while len(self.introductions) < self._clients:
            left = deadline - time.monotonic()
            if left <= 0:
                missing = sorted({*range(self._clients)} - {*self.introductions})
                raise VirtualTfError(f'after {self._start_timeout:g} s clients {missing} of {self._clients} were not '
                                     'there; start their SuperNodes, or raise start_timeout')
            self._meet(left)
            time.sleep(_POLL)

    def exchange(self, instructions):
        """{client: Reply or Failure} to {client: Instruction}, in at most round_timeout seconds."""
        deadline = time.monotonic() + self._round_timeout
        online = self._meet(self._round_timeout)
        outcome, asked = {}, {}
        for client, instruction in instructions.items():
            if self._nodes[client] in online:
                asked[self._nodes[client]] = client, pack_instruction(instruction)
            else:
                outcome[client] = Failure('failed', 'its SuperNode is not connected')
        left = max(deadline - time.monotonic(), _POLL)
        replies = self._send({node: record for node, (_, record) in asked.items()}, MessageType.TRAIN, left)
        for node, (client, _) in asked.items():
            outcome[client] = (_read(replies[node], unpack_reply) if node in replies else
                               Failure('late', f'no reply within {self._round_timeout:g} s'))
        return outcome

    def _meet(self, timeout):
        """Asks nodes that are new who they are; returns the ids of all that are online."""
        online = {*self._grid.get_node_ids()}
        new = online - {*self._nodes.values()} - self._strangers
        question = RecordDict({'settings': ConfigRecord({'json': json.dumps(self._settings)})})
        for node, reply in self._send(dict.fromkeys(new, question), MessageType.QUERY, timeout).items():
            introduction = _read(reply, unpack_introduction)
            if isinstance(introduction, Failure):
                logging.warning('node %d cannot take part: %s', node, introduction.reason)
                self._strangers.add(node)
            else:
                self._welcome(node, introduction, online)
        return online

    def _welcome(self, node, introduction, online):
        client = introduction.client
        known = self.introductions.get(client)
        if not 0 <= client < self._clients:
            reason = f'it says that it is client {client} of {self._clients}'
        elif known is not None and known != introduction:
            reason = f'it says that it is client {client}, whose data was another at the start'
        else:
            if self._nodes.get(client) in online:
                # Or one that was killed a moment ago; should both be alive, what each has lost keeps it out.
                logging.warning('client %d was node %d, which seems to be there still', client, self._nodes[client])
            self._nodes[client], self.introductions[client] = node, introduction
            logging.info('client %d (%s) is node %d', client, introduction.name, node)
            return
        logging.warning('node %d cannot take part: %s', node, reason)
        self._strangers.add(node)

    def _send(self, records, kind, timeout):
        """{node: reply} of those who answer; Grid.send_and_receive looks only every three seconds."""
        # A message that nobody has fetched when its round is over is of no use.
        return self._deliver([Message(content=record, dst_node_id=node, message_type=kind, ttl=timeout)
                              for node, record in records.items()], timeout)

    def _deliver(self, out, timeout):
        """{node: reply} to these messages, as far as they come in time."""
        deadline = time.monotonic() + timeout
        sent = {*self._grid.push_messages(out)} if out else set()
        # By the message that it answers: where a node is gone, the SuperLink itself replies.
        nodes = {message.metadata.message_id: message.metadata.dst_node_id for message in out
                 if message.metadata.message_id in sent}
        replies = {}
        while len(replies) < len(nodes) and time.monotonic() < deadline:
            waiting = [number for number, node in nodes.items() if node not in replies]
            for reply in self._grid.pull_messages(waiting):
                replies.setdefault(nodes[reply.metadata.reply_to_message_id], reply)
            time.sleep(_POLL if len(replies) < len(nodes) else 0)
        return replies


def pack_instruction(instruction):
    """Instruction → RecordDict: states and r as arrays of bytes, all else as JSON."""
    order = instruction.order
    described = instruction._replace(server=None, order=order._replace(shrink=None))._asdict()
    return RecordDict({'instruction': ConfigRecord({'json': json.dumps(described)}),
                       'server': _pack_bytes(instruction.server), 'shrink': _pack_bytes(order.shrink or b'')})


def unpack_instruction(record):
    fields = json.loads(record['instruction']['json'])
    version, head, _, keep = fields.pop('order')
    order = Order(version, head, _unpack_bytes(record['shrink']), tuple(keep))
    return Instruction(**fields | {'order': order, 'server': _unpack_bytes(record['server'])})


def pack_reply(reply):
    described = reply._replace(delta=None)._asdict()
    return RecordDict({'reply': ConfigRecord({'json': json.dumps(described)}), 'delta': _pack_bytes(reply.delta)})


def unpack_reply(record):
    reply = Reply(**json.loads(record['reply']['json']) | {'delta': _unpack_bytes(record['delta'])})
    if not (isinstance(reply.client, int) and isinstance(reply.version, int) and isinstance(reply.report, dict)):
        raise ValueError('the reply lacks client, version or report')
    return reply


def pack_introduction(introduction):
    return RecordDict({'introduction': ConfigRecord({'json': json.dumps(introduction._asdict())})})


def unpack_introduction(record):
    introduction = Introduction(**json.loads(record['introduction']['json']))
    return introduction._replace(sizes={name: tuple(pair) for name, pair in introduction.sizes.items()})


def _read(message, unpack):
    """The content of a Flower message, or the Failure that it stands for."""
    if message.has_error():
        return Failure('failed', message.error.reason or f'Flower\'s error {message.error.code}')
    try:
        return unpack(message.content)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        return Failure('refused', f'the message is malformed: {error!r}')


def _pack_bytes(data):
    return ArrayRecord([np.frombuffer(data, np.uint8)])


def _unpack_bytes(record):
    array, = record.to_numpy_ndarrays()
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError(f'expected bytes, got {array.dtype} {array.shape}')
    return array.tobytes()
