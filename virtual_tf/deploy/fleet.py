"""The clients of a federation as Flower's nodes: who is where, and an exchange of messages with some of them.

A SuperNode that starts again may come back under another node id, so clients are known by the number that they
introduce themselves with.
"""
import json
import time

import numpy as np
from absl import logging
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.deploy.messages import Failure, Instruction, Introduction, Reply, check_introduction
from virtual_tf.deploy.protocol import Order

_POLL = 0.25     # seconds between two looks
_PAUSE = 20.0    # seconds before a node that could not introduce itself is asked again


class Fleet:
    """All clients, numbered 0 to K − 1, behind a Flower grid.

    With `pinned` a client's number stays with the node that first had it: for SuperNodes with keys, whose ids last.
    Else the newest node of a number wins, because one that was killed seems to be there for a minute.
    """

    def __init__(self, grid, clients, settings, start_timeout, round_timeout, pinned=False):
        self._grid, self._clients, self._settings, self._pinned = grid, clients, settings, pinned
        self._start_timeout, self._round_timeout = start_timeout, round_timeout
        self._nodes = {}          # client → node id
        self._known = set()       # nodes that have introduced themselves, well or not
        self._asked = {}          # id of a question without an answer yet → node id
        self._again = {}          # node id → when one that failed to answer is asked again
        self.introductions = {}   # client → Introduction

    def gather(self, introductions=()):
        """Waits until every client has introduced itself; those of a run that goes on may also come later."""
        self.introductions |= introductions
        deadline = time.monotonic() + self._start_timeout
        while len(self._nodes) < self._clients and time.monotonic() < deadline:
            self._meet()
            time.sleep(_POLL)
        missing = sorted({*range(self._clients)} - {*self._nodes})
        if missing and (not self._nodes or len(self.introductions) < self._clients):
            raise VirtualTfError(f'after {self._start_timeout:g} s clients {missing} of {self._clients} were not '
                                 'there; start their SuperNodes, or raise start_timeout')
        if missing:
            logging.warning('the run goes on without clients %s, until they come', missing)

    def exchange(self, instructions):
        """{client: Reply or Failure} to {client: Instruction}: who is new may take half of round_timeout to say who
        it is, and then all have round_timeout."""
        online = self._meet(self._round_timeout / 2)
        here = {client: self._nodes[client] for client in instructions if self._nodes.get(client) in online}
        absent = {*instructions} - {*here}
        return dict.fromkeys(absent, Failure('failed', 'its SuperNode is not connected')) | self._exchange_with(
            here, instructions)

    def _exchange_with(self, here, instructions):
        """{client: Reply or Failure} of those who are online, {client: node}."""
        replies = self._send({node: pack_instruction(instructions[client]) for client, node in here.items()},
                             MessageType.TRAIN, self._round_timeout)
        late = Failure('late', f'no reply within {self._round_timeout:g} s')
        return {client: read(replies[node], unpack_reply) if node in replies else late
                for client, node in here.items()}

    def _meet(self, patience=0.0):
        """Asks nodes that are new who they are and hears who has answered; returns the ids of all that are online.

        Waits for those who are asked now, so long as patience lasts; who is silent then is heard whenever it answers.
        """
        online = {*self._grid.get_node_ids()}
        now = time.monotonic()
        self._asked = {number: node for number, node in self._asked.items() if node in online}
        waiting = {node for node, then in self._again.items() if then > now}
        new = online - self._known - {*self._asked.values()} - waiting
        fresh = self._ask(new)
        self._asked |= fresh
        while True:
            self._hear(online)
            if not {*fresh} & {*self._asked} or time.monotonic() >= now + patience:
                return online
            time.sleep(_POLL)

    def _ask(self, nodes):
        """{id of the question: node}"""
        question = RecordDict({'settings': ConfigRecord({'json': json.dumps(self._settings)})})
        out = [Message(content=question, dst_node_id=node, message_type=MessageType.QUERY, ttl=self._start_timeout)
               for node in nodes]
        return self._push(out)

    def _hear(self, online):
        """Takes in the introductions that have come."""
        for reply in self._grid.pull_messages([*self._asked]) if self._asked else ():
            node = self._asked.pop(reply.metadata.reply_to_message_id)
            introduction = read(reply, unpack_introduction)
            if not isinstance(introduction, Failure):
                self._known.add(node)
                self._welcome(node, introduction, online)
                continue
            logging.warning('node %d cannot take part: %s', node, introduction.reason)
            if introduction.kind == 'failed':     # its process was killed, or its data is not there yet
                self._again[node] = time.monotonic() + _PAUSE
            else:
                self._known.add(node)

    def _welcome(self, node, introduction, online):
        client = introduction.client
        known, before = self.introductions.get(client), self._nodes.get(client)
        if not 0 <= client < self._clients:
            reason = f'it says that it is client {client} of {self._clients}'
        elif known is not None and known != introduction:
            reason = f'it says that it is client {client}, whose data was another at the start'
        elif self._pinned and before not in (None, node):
            reason = f'it says that it is client {client}, which is node {before}'
        else:
            if before in online:
                # One that was killed a moment ago; should both be alive, what each has lost keeps it out.
                logging.warning('client %d was node %d, which seems to be there still', client, before)
            self._nodes[client], self.introductions[client] = node, introduction
            logging.info('client %d (%s) is node %d', client, introduction.name, node)
            return
        logging.warning('node %d cannot take part: %s', node, reason)

    def _send(self, records, kind, timeout):
        """{node: reply} of those who answer; Grid.send_and_receive looks only every three seconds."""
        # A message that nobody has fetched when its round is over is of no use.
        return self._deliver([Message(content=record, dst_node_id=node, message_type=kind, ttl=timeout)
                              for node, record in records.items()], timeout)

    def _deliver(self, out, timeout):
        """{node: reply} to these messages, as far as they come in time."""
        deadline = time.monotonic() + timeout
        nodes, replies = self._push(out), {}
        while len(replies) < len(nodes) and time.monotonic() < deadline:
            waiting = [number for number, node in nodes.items() if node not in replies]
            for reply in self._grid.pull_messages(waiting):
                replies.setdefault(nodes[reply.metadata.reply_to_message_id], reply)
            time.sleep(_POLL if len(replies) < len(nodes) else 0)
        return replies

    def _push(self, out):
        """{id of a message: node} of those that are on their way.

        A reply is known by the message that it answers: where a node is gone, the SuperLink itself replies.
        """
        sent = {*self._grid.push_messages(out)} if out else set()
        return {message.metadata.message_id: message.metadata.dst_node_id for message in out
                if message.metadata.message_id in sent}


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
    check_reply(reply)
    return reply


def check_reply(reply):
    """ValueError if its fields are not what they should be."""
    if not (isinstance(reply.client, int) and isinstance(reply.version, int) and isinstance(reply.report, dict)):
        raise ValueError('the reply lacks client, version or report')


def pack_introduction(introduction):
    return RecordDict({'introduction': ConfigRecord({'json': json.dumps(introduction._asdict())})})


def unpack_introduction(record):
    introduction = Introduction(**json.loads(record['introduction']['json']))
    introduction = introduction._replace(sizes={name: tuple(pair) for name, pair in introduction.sizes.items()})
    check_introduction(introduction)
    return introduction


def read(message, unpack):
    """The content of a Flower message, or the Failure that it stands for."""
    if message.has_error():
        return Failure('failed', message.error.reason or f'Flower\'s error {message.error.code}')
    try:
        return unpack(message.content)
    except Exception as error:     # whatever a stranger's bytes may cause in json, numpy or zipfile
        return Failure('refused', f'the message is malformed: {error!r:.300}')


def _pack_bytes(data):
    return ArrayRecord([np.frombuffer(data, np.uint8)])


def _unpack_bytes(record):
    array, = record.to_numpy_ndarrays()
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError(f'expected bytes, got {array.dtype} {array.shape}')
    return array.tobytes()
