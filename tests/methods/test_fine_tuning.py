import numpy as np
import pytest
import tensorflow as tf
import toys

from virtual_tf.core.random_streams import make_keys
from virtual_tf.methods import fine_tuning, local_sgd
from virtual_tf.networks import gated


def cohort_of(epochs, clients=2, size=6):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(clients, size, toys.FEATURES)).astype(np.float32)
    y = generator.integers(0, toys.CLASSES, (clients, size)).astype(np.int32)
    return toys.full_batch(x, y, np.full(clients, 0.5, np.float32), make_keys(0, ids=range(clients)), steps=epochs)


def test_tuning_goes_on_where_the_visit_ended():
    """With the whole data in every batch, E epochs and E' more are E + E' epochs."""
    network, updates = toys.make_network(), {}
    for epochs, more in ((2, 3), (5, 0)):
        settings = toys.make_settings(method='fedavg', epochs=epochs, fine_tune=more)
        algorithm = toys.registry.find('fedavg').make(network, settings)
        server, cohort = algorithm.init(0), cohort_of(epochs)
        clients = algorithm.init_clients(server, cohort.weight, cohort.keys)
        updates[more] = algorithm.client_update(server, clients, cohort)
    toys.assert_nests_close(updates[3][0].deployed, updates[0][0].deployed, rtol=1e-4, atol=1e-6)
    assert any(np.any(a != b) for a, b in zip(*(tf.nest.flatten(updates[more][1]) for more in (3, 0)))), \
        'what is sent is that of the shorter visit'


@pytest.mark.parametrize('given', [{'method': 'fedavg'}, {'method': 'virtual', 'mt_model': 'tuned'}], ids=str)
def test_nothing_of_the_tuning_reaches_the_server(given):
    dataset, servers, scores = toys.make_dataset(), [], []
    plain = {'mt_model': 'trained'} if given['method'] == 'virtual' else {'fine_tune': 0}
    for each in (given | {'fine_tune': 4}, given | plain):
        _, state, history = toys.play(toys.make_settings(**each, client_lr=0.2), dataset)
        servers.append(state.server)
        scores.append(history[-1]['mt/cross_entropy'])
    toys.assert_nests_close(*servers, rtol=1e-5, atol=1e-5)
    assert scores[0] != scores[1], 'but MT tests another model'


@pytest.mark.parametrize('method', ['fedavg', 'fedprox'])
def test_a_mixed_model_lies_between_the_servers_and_the_clients_and_is_not_sent(method):
    network, found = toys.make_network(), {}
    for share in (1.0, 0.25):
        algorithm = toys.registry.find(method).make(network, toys.make_settings(method=method, mt_share=share))
        server, cohort = algorithm.init(0), cohort_of(3)
        clients = algorithm.init_clients(server, cohort.weight, cohort.keys)
        found[share] = algorithm.client_update(server, clients, cohort)
    (whole, sent, _), (mixed, sent_mixed, _) = found[1.0], found[0.25]
    toys.assert_nests_close(sent, sent_mixed, rtol=1e-6)
    toys.assert_nests_close(mixed.deployed, {name: 0.75 * server[name] + 0.25 * value
                                             for name, value in whole.deployed.items()}, rtol=1e-5, atol=1e-7)


def test_a_plan_of_more_epochs_repeats_and_one_of_fewer_begins_alike():
    # Client 0 has 2 batches an epoch, client 1 one; two epochs.
    plan = np.array([[[0, 1], [2, -1], [1, 2], [0, -1]], [[0, 1], [1, 0], [-1, -1], [-1, -1]]], np.int32)
    cohort = cohort_of(1)._replace(batches=tf.constant(plan))
    once = local_sgd.with_epochs(cohort, 2, 1).batches.numpy()
    assert np.array_equal(once, [[[0, 1], [2, -1]], [[0, 1], [-1, -1]]])
    thrice = local_sgd.with_epochs(cohort, 2, 3).batches.numpy()
    assert np.array_equal(thrice[0], [*plan[0], *plan[0][:2]])
    assert np.array_equal(thrice[1], [*plan[1][:2], plan[1][0], *[[-1, -1]] * 3])


def test_private_weights_stand_still_and_count():
    network, cohort = toys.make_network(), cohort_of(2)
    settings = toys.make_settings(method='fedavg', fine_tune=3, private='joint')
    shared, private = (gated.initial_means(network, make_keys(i, ids=range(2)), 'glorot', 0.1) for i in range(2))
    tuned = [fine_tuning.fine_tune(network, settings, weights, cohort) for weights in (
        gated.Weights(shared, private, gated.initial_gates(network, 2, 0.5)), gated.without_private(shared))]
    assert any(np.max(np.abs(a - b)) > 1e-3 for a, b in zip(*(value.values() for value in tuned)))
