"""Clients that nobody has seen: the server's model on them as it is, and after some epochs on their own data.

A newcomer pays one visit, by the functions that every method has. It contributes nothing yet: its share w of the prior
is 0, so VIRTUAL's factor is empty and the cavity is the posterior, and a baseline fine-tunes the server's weights. What
is tested is what MT would test of it.
"""
import numpy as np
import tensorflow as tf

from virtual_tf.core import random_streams
from virtual_tf.core.client_axis import in_groups
from virtual_tf.methods import registry
from virtual_tf.simulator.evaluation import Evaluator

EPOCHS = (1, 5, 20)
_NO_MORE = {'fine_tune': 0, 'private': 'none'}     # so that every method has as many epochs
_BEFORE_ALL_ROUNDS = 0     # whose random streams nobody else uses


def measure(simulation, server):
    """{epochs: {'means' or 'sampled': {metric: number}}} after 0 epochs and those of EPOCHS; {} if all take part."""
    dataset, settings = simulation.dataset.unseen, simulation.settings
    if dataset is None:
        return {}
    numbers = len(simulation.dataset.clients) + np.arange(len(dataset.clients))
    evaluator = Evaluator(simulation.network, simulation.algorithm, dataset.test, settings, numbers)
    found = {0: list(evaluator.server(server).values())}
    for epochs in EPOCHS:
        found[epochs] = [scores.copy() for scores in found[0]]
        # Few visits: a graph is traced sooner than XLA has compiled it.
        shorter = settings.replace(epochs=epochs, compile='graph', **{
            name: value for name, value in _NO_MORE.items() if name in settings})
        algorithm = registry.find(settings.method).make(simulation.network, shorter)
        for rows in in_groups(dataset.train.sizes(), settings.clients_per_call or settings.clients_per_round):
            adapted, _ = visit(algorithm, server, dataset, rows, numbers[rows], shorter)
            for scores, of_rows in zip(found[epochs], evaluator.clients(adapted, rows).values()):
                scores.put(rows, of_rows)
    return {epochs: dict(zip(('means', 'sampled'), (scores.summary() for scores in ways)))
            for epochs, ways in found.items()}


def visit(algorithm, server, dataset, rows, numbers, settings):
    """States [C, …] of newcomers, rows of the data set, after they have trained, as if each had been applied alone.

    And the Training, which tells who was dropped: a state is then as it was before.
    """
    keys = random_streams.make_keys(settings.seed, random_streams.PRIVATE, ids=numbers)
    nothing, whole = np.zeros(len(rows), np.float32), np.ones(len(rows), np.float32)
    clients = algorithm.init_clients(server, nothing, keys)
    cohort = dataset.cohort(rows, _BEFORE_ALL_ROUNDS, settings, numbers, nothing, whole)
    proposals, deltas, training = algorithm.client_update(server, clients, cohort)
    # What MT tests does not depend on shrink, so anybody's will do.
    _, shrink = algorithm.server_update(server, tf.nest.map_structure(lambda value: value[0], deltas))
    return algorithm.commit(clients, proposals, deltas, shrink, training.accepted), training
