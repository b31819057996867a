"""Small problems that several test files share."""
import numpy as np
import tensorflow as tf

from virtual_tf.data.cohorts import Cohort
from virtual_tf.data.federated import FederatedDataset, Split
from virtual_tf.methods import registry
from virtual_tf.networks import models
from virtual_tf.simulator import rounds

FEATURES, CLASSES = 3, 2


def make_settings(**changes):
    """Settings of a plain run that takes a moment; graphs trace quicker than XLA compiles."""
    usual = {'precision_update': 'sgd', 'mt_model': 'trained', 'max_gradient_norm': 0.0, 'backtracking': False,
             'private_prior_scale': 0.0, 'gate_prior': 0.0, 'gate_init': 0.3,
             'compile': 'graph', 'private': 'none', 'rounds': 3, 'clients_per_round': 2, 'epochs': 2,
             'batch_size': 4, 'histogram_every': 0, 'kl_weight': 1e-2, 'server_lr': 0.2}
    return registry.make_settings(registry.applicable(changes.get('method', 'virtual'), usual | changes))


def make_network(hidden=(4,), features=FEATURES, classes=CLASSES, **options):
    return models.build('mlp', (features,), classes, hidden=hidden, **options)


def make_dataset(sizes=(9, 5, 7, 12), features=FEATURES, classes=CLASSES, seed=0, validation=0.0):
    """Clients with a rule of their own each, `sizes` training and half as many test examples."""
    generator = np.random.default_rng(seed)

    def examples(rule, size):
        x = generator.normal(size=(size, features)).astype(np.float32)
        return x, np.argmax(x @ rule, axis=1).astype(np.int32)

    rules = [generator.normal(size=(features, classes)) for _ in sizes]
    train, test = (Split.of([examples(rule, max(1, size // share)) for rule, size in zip(rules, sizes)])
                   for share in (1, 2))
    names = tuple(f'client {chr(97 + i)}' for i in range(len(sizes)))
    return FederatedDataset('toy', names, train, test, classes).hold_out(validation, seed)


def make_simulation(settings, dataset, hidden=(4,)):
    network = models.build('mlp', dataset.input_shape, dataset.num_classes, hidden=hidden,
                           use_bias=settings.use_bias, estimator=settings.get('estimator', 'local'))
    return rounds.Simulation(network, registry.find(settings.method).make(network, settings), dataset, settings)


def play(settings, dataset, hidden=(4,)):
    """(simulation, state after the last round, metrics of each round)"""
    simulation = make_simulation(settings, dataset, hidden)
    state = simulation.start()
    return simulation, state, list(simulation.run(state))


def full_batch(x, y, weight, keys, steps=1):
    """The Cohort of clients with equally many examples, `steps` steps with all of them."""
    clients, size = y.shape[:2]
    batches = np.tile(np.arange(size, dtype=np.int32), (clients, steps, 1))
    return Cohort(*map(tf.constant, (x, y, np.full(clients, size, np.int32), weight, batches, keys,
                                     np.ones(clients, np.float32))))


def assert_nests_close(first, second, rtol=1e-5, atol=0.0):
    tf.nest.assert_same_structure(first, second)
    for a, b in zip(tf.nest.flatten(first), tf.nest.flatten(second)):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=atol)


def assert_posterior_is_product(state, clients, tolerance=2e-5):
    """posterior = Π factor_i over all clients, to float tolerance of the parameters that were summed."""
    factors = state.clients.read(list(range(clients))).factor
    for name, posterior in state.server.items():
        for total, parts in zip(posterior, factors[name]):
            largest = np.maximum(np.abs(total), np.abs(parts).sum(axis=0))
            assert np.all(np.abs(parts.sum(axis=0, dtype=np.float64) - total) <= tolerance * largest)
