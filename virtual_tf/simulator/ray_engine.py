"""The rounds of simulator.rounds.Simulation over the workers of a ray_pool.Pool.

A round sends the server's state down once a worker, and one summed delta a worker up. Clients have a home: the worker
that has trained them last and so has their states in memory. Groups are made of clients of one home as far as that
goes; whoever is idle takes over a waiting group, and becomes the home of its clients.

A delta is applied if and only if the new state of its client is written: the server's state of a round becomes the
run's only when every worker has written its clients' files. A worker that dies before has its groups trained again by
others, from the states of the last round.
"""
import collections
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from virtual_tf.core import encoding, plugins
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.methods.interface import checked_update
from virtual_tf.simulator import rounds, side_by_side
from virtual_tf.simulator.ray_pool import Task, size_of
from virtual_tf.simulator.shared_store import SharedStore


class _Sent(NamedTuple):
    """The server's state after a round, in the object store."""
    round: int
    reference: list
    size: int     # bytes


class RaySimulation(rounds.Simulation):
    """A Simulation whose clients train and are tested by the workers of a pool; the run is the same."""

    def __init__(self, network, algorithm, dataset, settings, pool):
        super().__init__(network, algorithm, dataset, settings)
        self._pool = pool
        self._per_call = side_by_side.group_size(
            dataset.train.sizes(), settings.clients_per_round, pool.slots, settings.clients_per_call)
        self._homes = {}              # client → number of a worker
        self._server = None           # the server's state as the workers get it
        self._receivers = set()       # workers that have it

    def start(self, folder=None):
        if folder is None:
            raise VirtualTfError('engine=ray needs the folder of a run, which its workers share')
        server = self.algorithm.init(self.settings.seed)
        fresh = rounds.fresh_clients(self.algorithm, self.dataset, self.settings, server)
        folder = folder.resolve()
        store = SharedStore(fresh, folder, self._sync)
        self._pool.open(self.dataset, self.settings, plugins.loaded(), str(folder), self._per_call)
        state = rounds.RunState(server, store, 0, {})
        self._measure_server(state)
        state.scores |= {name.replace('server', 'mt'): found.copy() for name, found in state.scores.items()}
        if self.algorithm.server_model is None:
            self._measure_clients(state, np.arange(len(self.dataset.clients)))
        return state

    def measure_again(self, state, missing):
        self._measure_clients(state, np.array(state.clients.contributors(), np.int64))
        self._measure_server(state)

    def play_round(self, state):
        with self._pool.connection():
            return self._play_round(state)

    def _play_round(self, state):
        started = time.perf_counter()
        self._pool.begin_round()
        number = state.round + 1
        ids = self.cohort_ids(number)
        trained = _Trained(ids)
        new_server, shrink = self._train_and_commit(state, trained, number)
        training, sizes, sent = trained.columns()
        accepted = training.accepted
        state.clients.written(ids[accepted])
        traffic = sent | encoding.traffic_down(state.server, shrink, len(ids), int(accepted.sum()))
        state.server, state.round = new_server, number
        self._homes.update(trained.homes())
        self._warn_of_dropped(ids, accepted, number)
        trained_after = time.perf_counter()
        self._measure_clients(state, ids[accepted])
        self._measure_server(state)
        done = time.perf_counter()
        return {'round': number, **rounds.of_clients(training, accepted, sizes),
                'shrunk_precisions': sum(int(np.sum(np.asarray(r) < 1.0)) for r in shrink.values()),
                'applied_clients': int(accepted.sum()), 'dropped_clients': int((~accepted).sum()), **traffic,
                **rounds.read_out(state), 'seconds': done - started,
                'seconds_evaluation': done - trained_after, 'seconds_waiting': self._pool.waited,
                'seconds_transport': self._pool.fetched, 'bytes_moved': self._pool.moved}

    def _train_and_commit(self, state, trained, number):
        """(server's state, shrink) with which every client of the round that is accepted has written its new state."""
        server = self._send(state)
        while True:
            missing = trained.missing(self._pool.alive())
            groups = self._groups(trained.ids[missing])
            tasks = [self._task('train', trained.ids[missing][rows], state, number, server) for rows in groups]
            for rows, done in zip(groups, self._run_with_server(tasks)):
                trained.put(missing[rows], *done)
            deltas = self._pool.ask(trained.workers(), 'delta')
            if len(deltas) < len(trained.workers()):
                continue
            delta = _add_up(deltas.values(), self.algorithm.no_delta(state.server))
            new_server, shrink = checked_update(self.algorithm.server_update(state.server, delta), state.server)
            shrink = {name: np.asarray(r) for name, r in shrink.items()}
            self._pool.moved += size_of(shrink) * len(deltas)
            written = self._pool.ask(
                trained.workers(), 'commit', self._pool.put(shrink), state.clients.next_version)
            if len(written) == len(trained.workers()):
                return new_server, shrink

    def _groups(self, ids):
        """Rows of these clients, who may be none, in groups of one call."""
        if not len(ids):
            return []
        return groups_by_home(self.dataset.train.sizes()[ids], [self._home(i) for i in ids], self._per_call)

    def _home(self, client):
        """The worker that trained the client last; one that never did is shared out by number."""
        alive = self._pool.alive()
        home = self._homes.get(client, -1)
        return home if home in alive or not alive else alive[client % len(alive)]

    def _task(self, name, ids, state, number=None, *server):
        """A Task for a group of clients; its cost is the steps of a call, which is as long as its largest client."""
        home, _ = collections.Counter(self._home(i) for i in ids).most_common(1)[0]
        arguments = ([int(i) for i in ids], state.clients.versions(ids))
        if number is not None:
            arguments = (number, *arguments, *server)
        return Task(name, arguments, float(self.dataset.train.sizes()[ids].max()), home)

    def _send(self, state):
        """What workers need to have the server's state, once a round."""
        if self._server is None or self._server.round != state.round:
            leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(state.server)]
            self._server, self._receivers = _Sent(state.round, self._pool.put(leaves), size_of(leaves)), set()
        return self._server.round, self._server.reference

    def _run_with_server(self, tasks):
        """The pool's answers; who has not worked with the server's state before has received it for them."""
        answers = self._pool.run(tasks)
        new = {done.worker for done in answers} - self._receivers
        self._receivers |= new
        self._pool.moved += self._server.size * len(new)
        return answers

    def _measure_clients(self, state, ids):
        """MT of these clients, into the scores."""
        groups = self._groups(ids)
        for rows, done in zip(groups, self._pool.run([self._task('measure', ids[rows], state) for rows in groups])):
            for name, found in done.found.items():
                state.scores[name].put(ids[rows], found)

    def _measure_server(self, state):
        """S, into the scores; each worker has the same chunks in every round."""
        alive, server, tasks = self._pool.alive(), self._send(state), []
        for prefix, evaluator in self._evaluators.items() if self.algorithm.server_model else ():
            parts = [part for part in np.array_split(evaluator.chunks, self._pool.slots) if len(part)]
            tasks += [Task('measure_server', (prefix, part.tolist(), server), float(len(part)),
                           alive[i % len(alive)] if alive else None) for i, part in enumerate(parts)]
        answers = self._run_with_server(tasks)
        for prefix, evaluator in self._evaluators.items():
            parts = [done.found for task, done in zip(tasks, answers) if task.arguments[0] == prefix]
            state.scores |= {f'{prefix}{name}': found for name, found in evaluator.whole_server(parts).items()}

    def _sync(self):
        """[(client, version), …] that the workers have brought to the disk."""
        with self._pool.connection():
            return [written for found in self._pool.ask(self._pool.alive(), 'sync').values() for written in found]


class _Trained:
    """What is known of the clients of a round, and which worker has the rest."""

    def __init__(self, ids):
        self.ids = ids
        self._worker = np.full(len(ids), -1)
        self._groups = {}     # worker → [(rows, columns, sizes, sent), …]

    def put(self, rows, worker, found):
        self._worker[rows] = worker
        self._groups.setdefault(worker, []).append((rows, *found))

    def missing(self, alive):
        """Rows of clients that nobody who is there has trained."""
        self._groups = {worker: groups for worker, groups in self._groups.items() if worker in alive}
        return np.flatnonzero(~np.isin(self._worker, alive))

    def workers(self):
        return list(self._groups)

    def homes(self):
        return dict(zip(self.ids.tolist(), self._worker.tolist()))

    def columns(self):
        """(Training [C], sizes [C], {bytes_up, parameters_up})"""
        groups = [group for of_worker in self._groups.values() for group in of_worker]
        order = np.argsort(np.concatenate([rows for rows, *_ in groups]))
        training = tf.nest.map_structure(lambda *parts: np.concatenate(parts)[order], *(part for _, part, *_ in groups))
        sizes = np.concatenate([sizes for _, _, sizes, _ in groups])[order]
        return training, sizes, {
            name: sum(sent[name] for *_, sent in groups) for name in ('bytes_up', 'parameters_up')}


def groups_by_home(sizes, homes, per_call):
    """Rows in as few groups of at most `per_call` as there can be, most of them of one home, of similar sizes.

    The smallest clients of each home, who fill no group, go together.
    """
    order, groups, rest = np.argsort(-sizes, kind='stable'), [], []
    homes = np.asarray(homes)
    for home in np.unique(homes):
        own = order[homes[order] == home]
        whole = len(own) - len(own) % per_call
        groups += list(own[:whole].reshape(-1, per_call))
        rest.append(own[whole:])
    rest = order[np.isin(order, np.concatenate(rest))]
    return [*groups, *(rest[start:start + per_call] for start in range(0, len(rest), per_call))]


def _add_up(deltas, like):
    """The sum of all workers' deltas, as lists of leaves, in the nest of `like`."""
    total = [np.sum(leaves, axis=0, dtype=np.float64).astype(np.float32) for leaves in zip(*deltas)]
    return tf.nest.pack_sequence_as(like, [tf.constant(leaf) for leaf in total])
