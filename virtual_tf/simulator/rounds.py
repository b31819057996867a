"""The round loop of the simulated star network: select → train → aggregate → update → evaluate → tell the hooks."""
import dataclasses
import time

import numpy as np
import tensorflow as tf
from absl import logging

from virtual_tf.core import encoding, random_streams
from virtual_tf.core.client_axis import in_groups, take, ungroup
from virtual_tf.core.errors import RunError
from virtual_tf.methods.interface import checked_update
from virtual_tf.simulator import side_by_side
from virtual_tf.simulator.client_store import ClientStore, open_store
from virtual_tf.simulator.evaluation import VISITED, Evaluator


@dataclasses.dataclass
class RunState:
    """All that changes from round to round."""
    server: dict
    clients: ClientStore
    round: int
    scores: dict     # {model: Scores [K]} as last measured: server, mt, …; val_server, val_mt, … on held-out data


class Simulation:
    """A method on a data set; `run` yields the metrics of each round."""
    place = 'simulator'

    def __init__(self, network, algorithm, dataset, settings):
        self.network, self.algorithm, self.dataset, self.settings = network, algorithm, dataset, settings
        self._evaluators = {prefix: Evaluator(network, algorithm, split, settings)
                            for prefix, split in dataset.tested().items()}
        self._threads = side_by_side.threads_of(settings)
        self._per_call = side_by_side.group_size(
            dataset.train.sizes(), settings.clients_per_round, self._threads, settings.clients_per_call)

    def start(self, folder=None):
        """The state before the first round; all clients deploy the initial posterior. `folder` is for their files."""
        server = self.algorithm.init(self.settings.seed)
        fresh = fresh_clients(self.algorithm, self.dataset, self.settings, server)
        store = open_store(fresh, len(self.dataset.clients), self.settings.store, folder)
        return RunState(server, store, 0, initial_scores(self._evaluators, server, fresh, self))

    def measure_again(self, state, missing):
        """The scores of the server and of all clients that have trained, as the checkpoint lacks `missing` metrics."""
        measure_clients(self._evaluators, state.scores, state.clients.read,
                        np.array(state.clients.contributors(), np.int64), self.settings.clients_per_round)
        evaluate_server(self._evaluators, state)

    def run(self, state):
        """Rounds from the state's own to the last, changing it; yields a dict of metrics after each."""
        while state.round < self.settings.rounds:
            yield self.play_round(state)

    def play_round(self, state):
        """One round of Algorithm 1, lines 5 to 11, and its evaluation."""
        started = time.perf_counter()
        algorithm, number = self.algorithm, state.round + 1
        ids = self.cohort_ids(number)
        clients = state.clients.read(ids)
        proposals, deltas, training, sizes = self.train(state.server, clients, ids, number)
        delta = algorithm.aggregate(deltas, training.accepted)
        new_server, shrink = checked_update(algorithm.server_update(state.server, delta), state.server)
        new_clients = algorithm.commit(clients, proposals, deltas, shrink, training.accepted)
        accepted = training.accepted.numpy()
        # A dropped client has not trained: it stays as the store has it, or unknown to it.
        state.clients.write(ids[accepted], take(new_clients, np.flatnonzero(accepted)))
        traffic = encoding.traffic(state.server, deltas, shrink, accepted, self.settings.values)
        state.server, state.round = new_server, number
        self._warn_of_dropped(ids, accepted, number)
        trained = time.perf_counter()
        scores = self._evaluate(state, new_clients, ids, accepted)
        done = time.perf_counter()
        return {'round': number, **of_clients(training, accepted, sizes),
                'shrunk_precisions': sum(int(tf.reduce_sum(tf.cast(r < 1.0, tf.int32))) for r in shrink.values()),
                'applied_clients': int(accepted.sum()), 'dropped_clients': int((~accepted).sum()), **traffic, **scores,
                'seconds': done - started, 'seconds_evaluation': done - trained}

    def cohort_ids(self, number):
        """Clients of a round, by its number."""
        return select(len(self.dataset.clients), self.settings.clients_per_round, self.settings.seed, number)

    def train(self, server, clients, ids, number):
        """client_update of the cohort, in groups side by side; and the clients' sizes [C]."""
        groups = in_groups(self.dataset.train.sizes()[ids], self._per_call)

        def train(rows):
            cohort = self.dataset.cohort(ids[rows], number, self.settings)
            return (*self.algorithm.client_update(server, take(clients, rows), cohort), cohort.size)

        try:
            return ungroup(side_by_side.map_groups(train, groups, self._threads), groups)
        except (MemoryError, tf.errors.ResourceExhaustedError) as error:
            at_once = self._per_call * min(len(groups), self._threads)
            remedy = f'clients_per_call={self._per_call // 2} or less' if self._per_call > 1 else 'threads=1'
            raise RunError(f'round {number}: {at_once} clients at once do not fit into memory; continue with --{remedy}'
                           ) from error

    def _evaluate(self, state, clients, ids, accepted):
        """S anew; MT anew for the clients that trained, the others' models are what they were."""
        for prefix, evaluator in self._evaluators.items():
            for name, found in evaluator.clients(clients, ids).items():
                state.scores[f'{prefix}{name}'].put(ids[accepted], found.take(accepted))
        evaluate_server(self._evaluators, state)
        return read_out(state)

    def _warn_of_dropped(self, ids, accepted, number):
        for i in ids[~accepted]:
            logging.warning('round %d: the training of client %r gave numbers that are not finite; it was dropped '
                            'from the round and keeps its state (a smaller --client_lr helps)',
                            number, self.dataset.clients[i])


def fresh_clients(algorithm, dataset, settings, server):
    """The function of ids that gives the states of clients which were never selected."""
    weights = dataset.prior_weights(settings.get('prior_weighting', 'uniform'))

    def fresh(ids):
        return algorithm.init_clients(
            server, weights[ids], random_streams.make_keys(settings.seed, random_streams.PRIVATE, ids=ids))
    return fresh


def select(clients, count, seed, number):
    """Algorithm 1, line 5: `count` different clients, by seed and round; in ascending order."""
    generator = random_streams.make_generator(seed, random_streams.SELECTION, number)
    return np.sort(generator.choice(clients, count, replace=False))


def initial_scores(evaluators, server, fresh, simulation):
    """{model: Scores} before the first round, of evaluators by prefix.

    The clients' models are the server's, or where that has none what fresh(ids) has.
    """
    scores = {}
    for prefix, evaluator in evaluators.items():
        for name, found in evaluator.server(server).items():
            scores |= {f'{prefix}{name}': found, f'{prefix}{name.replace("server", "mt")}': found.copy()}
    if simulation.algorithm.server_model is None:
        ids = np.arange(len(simulation.dataset.clients))
        measure_clients(evaluators, scores, fresh, ids, simulation.settings.clients_per_round)
    return scores


def measure_clients(evaluators, scores, read, ids, chunk):
    """The models of these clients, whose states read(ids) gives, into the scores; `chunk` at once."""
    for some in (ids[start:start + chunk] for start in range(0, len(ids), chunk)):
        clients = read(some)
        for prefix, evaluator in evaluators.items():
            for name, found in evaluator.clients(clients, some).items():
                scores[f'{prefix}{name}'].put(some, found)


def evaluate_server(evaluators, state):
    """S anew, into the state's scores."""
    for prefix, evaluator in evaluators.items():
        state.scores |= {f'{prefix}{name}': found for name, found in evaluator.server(state.server).items()}


def read_out(state):
    """{model/name: number} of all metrics of a state's scores, also of MT over those that have trained alone."""
    trained = np.array(state.clients.contributors(), np.int64)
    found = {model: scores.summary() for model, scores in state.scores.items()}
    for model in ('mt', 'val_mt'):
        if model in found:
            of_trained = state.scores[model].take(trained)
            found[f'{model}{VISITED}'] = (of_trained.summary() if of_trained.targets.any() else
                                          dict.fromkeys(found[model], np.nan))
    return {f'{model}/{name}': value for model, values in found.items() for name, value in values.items()}


def of_clients(training, accepted, sizes):
    """Means over the accepted clients, weighted by size, and sums of what counts; NaN when there is none."""
    columns = {'train/loss': training.loss, 'train/accuracy': training.accuracy, **training.details}
    if not accepted.any():
        return {name: float('nan') for name in columns}
    return {name: _total(np.asarray(column)[accepted], np.asarray(sizes)[accepted]) for name, column in columns.items()}


def _total(column, sizes):
    counts = np.issubdtype(column.dtype, np.integer)
    return int(column.sum()) if counts else float(np.average(column, weights=sizes))
