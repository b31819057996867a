"""The server of a federation: the rounds of simulator.rounds.Simulation, with clients that are elsewhere."""
import time

import numpy as np
import tensorflow as tf
from absl import logging

from virtual_tf.core import encoding
from virtual_tf.deploy import ledger, messages
from virtual_tf.deploy.messages import Failure, Instruction
from virtual_tf.deploy.protocol import version_of
from virtual_tf.methods.interface import Training
from virtual_tf.simulator import metrics, rounds
from virtual_tf.simulator.evaluation import Evaluator, Scores, ways_to_predict

_KINDS = ('failed', 'late', 'refused')


class Federation:
    """Plays rounds over a fleet: `fleet.exchange({client: Instruction})` → {client: Reply or Failure}.

    fleet.introductions has what each client said of its data. With `tests_server` the data set is here, as in a trial,
    and S is measured on all of it; else the clients of a round measure the model that they were sent.
    """
    place = 'flower'
    secure = False

    def __init__(self, network, algorithm, dataset, settings, fleet, norm_bound, tests_server):
        self.network, self.algorithm, self.dataset, self.settings = network, algorithm, dataset, settings
        self._fleet, self._norm_bound = fleet, norm_bound
        self._splits = dataset.tested()
        self._evaluators = {prefix: Evaluator(network, algorithm, split, settings)
                            for prefix, split in self._splits.items()} if tests_server else {}
        self._weights = dataset.prior_weights(settings.get('prior_weighting', 'uniform'))
        self._start = None

    def start(self, folder):
        """The state before the first round; `folder` is that of the clients' part of the checkpoints."""
        self._start = ledger.next_start(folder.parent)
        ledger.remember(folder.parent, self._fleet.introductions)
        server = self.algorithm.init(self.settings.seed)
        fresh = rounds.fresh_clients(self.algorithm, self.dataset, self.settings, server)
        scores = rounds.initial_scores(self._evaluators, server, fresh, self)
        if not scores:
            scores = {f'{prefix}{model}{way}': Scores.unmeasured(split.targets(), self.dataset.num_classes)
                      for prefix, split in self._splits.items() for way in ways_to_predict(self.settings)
                      for model in ('server', 'mt')}
        return rounds.RunState(server, ledger.FolderLedger(folder), 0, scores)

    def run(self, state):
        """Rounds from the state's own to the last, changing it; yields a dict of metrics after each."""
        while state.round < self.settings.rounds:
            yield self.play_round(state)

    def cohort_ids(self, number):
        """Clients of a round, by its number; the simulator's."""
        return rounds.select(len(self.dataset.clients), self.settings.clients_per_round, self.settings.seed, number)

    def play_round(self, state):
        """One round of Algorithm 1, lines 5 to 11; whoever does not answer well is left out, and the metrics say so."""
        started = time.perf_counter()
        number = state.round + 1
        version = version_of(self._start.generation, number)
        instructions = self._instructions(state, number, version)
        replies = self._fleet.exchange(instructions)
        accepted, dropped, failures = self._sift(replies, instructions, state.server)
        largest = self._largest([delta for _, delta in accepted.values()], state.server)
        delta = self._aggregate(state.server, [delta for _, delta in accepted.values()])
        state.server, shrink = self.algorithm.server_update(state.server, delta)
        shrink_bytes = messages.encode_shrink(shrink)
        state.clients.applied(list(accepted), version, shrink_bytes)
        state.round = number
        self._log(failures, dropped, number)
        aggregated = time.perf_counter()
        scores = self._evaluate(state, {client: reply for client, (reply, _) in accepted.items()})
        done = time.perf_counter()
        # What the clients name comes first: it replaces nothing.
        return {**self._of_clients({client: reply for client, (reply, _) in accepted.items()}), 'round': number,
                'shrunk_precisions': sum(int(np.sum(np.asarray(r) < 1.0)) for r in shrink.values()),
                'applied_clients': len(accepted), 'dropped_clients': len(dropped), **largest,
                **{f'{kind}_clients': sum(failure.kind == kind for failure in failures.values()) for kind in _KINDS},
                **self._traffic(instructions, [reply for reply, _ in accepted.values()],
                                [delta for _, delta in accepted.values()]), **scores,
                'seconds': done - started, 'seconds_evaluation': done - aggregated}

    def _instructions(self, state, number, version):
        server, steps = encoding.encode(state.server), self.dataset.steps_of(number, self.settings)
        return {client: Instruction(
                    self._start.run, number, state.clients.order(client, version), float(self._weights[client]),
                    float(steps[client]),
                    self.dataset.num_classes, self.settings.to_dict(), 'server' in self._asked(),
                    self.secure, server)
                for client in map(int, self.cohort_ids(number))}

    def _sift(self, replies, instructions, server):
        """({client: (reply, delta)}, clients that dropped themselves, {client: Failure}), clients ascending."""
        like = self.algorithm.no_delta(server)
        accepted, dropped, failures = {}, [], {}
        for client in sorted(instructions):
            reply = replies[client]
            if isinstance(reply, Failure):
                failures[client] = reply
            elif not reply.accepted:
                dropped.append(client)
            else:
                try:
                    messages.check_report(reply.report, self._expected_scores())
                    delta = messages.read_delta(reply, instructions[client], self._fleet.introductions[client], like,
                                                server, self._norm_bound)
                except messages.RefusedError as error:
                    failures[client] = Failure('refused', str(error))
                else:
                    accepted[client] = reply, delta
        return accepted, dropped, failures

    def _largest(self, deltas, server):
        """What norm_bound is held against: to choose it by."""
        return {'largest_delta': max((messages.relative_norm(delta, server) for delta in deltas), default=0.0)}

    def _expected_scores(self):
        """{model and split: {metric: shape}} of what a client reports."""
        return {f'{prefix}{model}{way}': metrics.shapes(self.dataset.num_classes) for prefix in self._splits
                for model in self._asked() for way in ways_to_predict(self.settings)}

    def _asked(self):
        """Models that the clients test: also the server's, if it has one and no data to test it on."""
        return ('mt',) if self._evaluators or self.algorithm.server_model is None else ('mt', 'server')

    def measure_again(self, state, missing):
        """The clients' models are elsewhere: what a checkpoint lacks of them is unknown until they report it."""
        for model, lacking in missing.items():
            for metric in lacking:
                state.scores[model].sums[metric][state.clients.contributors()] = np.nan
        rounds.evaluate_server(self._evaluators, state)

    def _aggregate(self, server, deltas):
        if not deltas:
            return self.algorithm.no_delta(server)
        stacked = tf.nest.map_structure(lambda *leaves: tf.constant(np.stack(leaves)), *deltas)
        return self.algorithm.aggregate(stacked, tf.ones(len(deltas), tf.bool))

    def _of_clients(self, replies):
        """The metrics that the simulator has of a cohort's training."""
        reports = [reply.report for reply in replies.values()]
        details = [name for name in (reports[0]['details'] if reports else ())
                   if all(name in report['details'] for report in reports) and not name.startswith('train/')]
        columns = Training(*(np.array([report[name] for report in reports]) for name in ('loss', 'accuracy')),
                           np.ones(len(reports), bool),
                           {name: np.array([report['details'][name] for report in reports]) for name in details})
        sizes = [self._fleet.introductions[client].sizes['train'][1] for client in replies]
        return rounds.of_clients(columns, columns.accepted, sizes)

    def _traffic(self, instructions, replies, deltas):
        """Bytes of the states, deltas and r that have travelled; the frame around them is Flower's."""
        return {'bytes_up': sum(len(reply.delta) for reply in replies),
                'bytes_down': sum(len(instruction.server) + len(instruction.order.shrink or b'')
                                  for instruction in instructions.values()),
                'parameters_up': sum(int(np.count_nonzero(leaf)) for delta in deltas
                                     for leaf in tf.nest.flatten(delta))}

    def _evaluate(self, state, replies):
        """S and MT as last measured; S here and now if the data is here."""
        for model in self._expected_scores():
            for client, reply in replies.items():
                for metric, sums in state.scores[model].sums.items():
                    sums[client] = reply.report['scores'][model][metric]
        rounds.evaluate_server(self._evaluators, state)
        return rounds.read_out(state)

    def _log(self, failures, dropped, number):
        for client, failure in failures.items():
            logging.warning('round %d: client %d (%s) %s: %s', number, client, self.dataset.clients[client],
                            failure.kind, failure.reason)
        for client in dropped:
            logging.warning('round %d: the training of client %d (%s) gave numbers that are not finite; it was dropped '
                            'from the round and keeps its state (a smaller client_lr helps)', number, client,
                            self.dataset.clients[client])
