"""A client of a federation: it agrees with the server, trains, tests and keeps what only it may have."""
import dataclasses
import re
import time

import numpy as np
import tensorflow as tf

from virtual_tf.core import encoding, random_streams, safe_files, strict_json
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.deploy import messages, protocol, units
from virtual_tf.deploy.shelf import FolderShelf
from virtual_tf.methods import registry
from virtual_tf.simulator.evaluation import Evaluator

_ALL = np.zeros(1, np.int64)     # the position of the one client in its own data set


class Client:
    """One client with its data and its folder, for the length of one message."""

    def __init__(self, number, dataset, folder, instruction):
        if not re.fullmatch('[0-9a-f]{32}', instruction.run):     # a folder's name, and no way out of it
            raise VirtualTfError(f'the server calls its run {instruction.run!r:.50}, which is no name of a run')
        self.number, self.folder = number, folder / instruction.run
        # The classes of all clients, of which this one may not have seen the last.
        self.dataset = dataset = dataclasses.replace(dataset, num_classes=instruction.num_classes)
        self.network, self.algorithm, self.settings = registry.build(
            registry.read_settings(instruction.settings), dataset)
        self.instruction = instruction
        self._initial = self.algorithm.init(self.settings.seed)

    def answer(self):
        """The Reply to the instruction; the same one if it was given before."""
        order = self.instruction.order
        self.folder.mkdir(parents=True, exist_ok=True)
        with safe_files.locked(self.folder, f'client {self.number}\'s folder',
                               'give each SuperNode a state-dir of its own'):
            shelf = FolderShelf(self.folder, self._start)
            server = encoding.decode(self.instruction.server, self._initial)
            cohort = self.dataset.cohort(_ALL, self.instruction.number, self.settings, [self.number], self._weight(),
                                         np.array([self.instruction.step], np.float32))
            try:
                state = protocol.reconcile(shelf, order, lambda *given: self._commit(server, cohort, *given))
            except protocol.LostStateError as error:
                raise VirtualTfError(f'{self.folder} lacks what client {self.number} contributed ({error}); put that '
                                     'folder back, or start a new run') from error
            found = shelf.pending(order.version)
            if found is None:
                accepted, content = self._train(server, state, cohort)
                if not accepted:
                    return messages.Reply(self.number, order.version, False, content[0], b'')
                found = protocol.Pending(order.head, content)
                shelf.put_pending(order.version, found)
        report, arrays = found.content
        return messages.Reply(self.number, order.version, True, report, arrays[0].tobytes())

    def steps(self, reply):
        """The delta of a reply of a secure run in the steps that it was rounded to."""
        if not reply.accepted:
            raise VirtualTfError(f'the training of client {self.number} gave numbers that are not finite')
        server = encoding.decode(self.instruction.server, self._initial)
        return units.to_steps(encoding.decode(reply.delta, self._initial), server)[0]

    def _weight(self):
        return np.array([self.instruction.weight], np.float32)

    def _start(self):
        keys = random_streams.make_keys(self.settings.seed, random_streams.PRIVATE, ids=[self.number])
        return self.algorithm.init_clients(self._initial, self._weight(), keys)

    def _train(self, server, state, cohort):
        """(accepted, (report, [delta as bytes, proposal …])) of client_update with this one client."""
        started = time.perf_counter()
        self.algorithm.client_update.get_concrete_function(server, state, cohort)
        traced = time.perf_counter()
        proposals, deltas, training = self.algorithm.client_update(server, state, cohort)
        accepted = bool(training.accepted[0])
        trained = time.perf_counter()
        report = {'loss': training.loss, 'accuracy': training.accuracy, **training.details}
        report = {name: np.asarray(column)[0].item() for name, column in report.items()}
        report = {'details': {name: report.pop(name) for name in training.details}, **report}
        report['details'] |= {'seconds_trace': traced - started, 'seconds_train': trained - traced}
        if not accepted:
            return False, ({**strict_json.finite(report), 'scores': {}}, [])
        alone = tf.nest.map_structure(lambda value: value[0], deltas)
        # As if nobody else had answered: what MT tests does not depend on r.
        _, shrink = self.algorithm.server_update(server, alone)
        report['scores'] = self._scores(server, self.algorithm.commit(
            state, proposals, deltas, shrink, training.accepted))
        values = self.settings.values
        if self.instruction.secure:
            steps, report['details']['clipped_values'] = units.to_steps(alone, server)
            alone, values = units.from_steps(steps, server), 'float32'
        delta = np.frombuffer(encoding.encode(alone, values), np.uint8)
        return True, (report, [delta, *tf.nest.flatten(proposals)])

    def _commit(self, server, cohort, state, content, shrink):
        """The state with a pending proposal, of which the server has applied the delta, shrunk by r."""
        _, (delta, *leaves) = content
        structure = self.algorithm.client_update.get_concrete_function(server, state, cohort).structured_outputs[0]
        proposals = tf.nest.pack_sequence_as(structure, [tf.constant(leaf) for leaf in leaves])
        alone = encoding.decode(delta.tobytes(), self.algorithm.no_delta(self._initial))
        deltas = tf.nest.map_structure(lambda value: tf.constant(value)[tf.newaxis], alone)
        return self.algorithm.commit(state, proposals, deltas, messages.decode_shrink(shrink, server),
                                     tf.constant([True]))

    def _scores(self, server, state):
        """{model and split: {metric: what the client has of it}} on the client's own data."""
        scores = {}
        for prefix, split in self.dataset.tested().items():
            evaluator = Evaluator(self.network, self.algorithm, split, self.settings, [self.number])
            tested = evaluator.clients(state, _ALL)
            if self.instruction.scores_server:
                tested |= evaluator.server(server)
            scores |= {f'{prefix}{name}': {metric: sums[0].tolist() for metric, sums in found.sums.items()}
                       for name, found in tested.items()}
        return scores
