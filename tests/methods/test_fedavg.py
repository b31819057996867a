import inspect

import numpy as np
import pytest
import tensorflow as tf
from toys import assert_nests_close, full_batch, make_dataset, make_network, make_settings, make_simulation, play

from virtual_tf.core.random_streams import make_keys
from virtual_tf.methods.fedavg import fedavg
from virtual_tf.methods.fedprox import fedprox
from virtual_tf.methods.interface import WeighedDelta
from virtual_tf.networks import gated

SIZES = (9, 5, 7, 12)


def baseline(**changes):
    return make_settings(**({'method': 'fedavg', 'server_lr': 1.0, 'client_lr': 0.1, 'mean_init': 'glorot'} | changes))


@pytest.fixture(scope='module')
def data():
    """Two clients with 6 examples each, and their keys."""
    generator = np.random.default_rng(0)
    return (generator.normal(size=(2, 6, 3)).astype(np.float32), generator.integers(0, 2, (2, 6)).astype(np.int32),
            np.full(2, 0.5, np.float32), make_keys(0, ids=range(2)))


def pooled_gradient(network, weights, x, y):
    """The gradient of the mean cross-entropy over all examples, whoever has them."""
    with tf.GradientTape() as tape:
        tape.watch(weights)
        stacked = {name: value[tf.newaxis] for name, value in weights.items()}
        logits = gated.logits(network, gated.without_private(stacked),
                               tf.reshape(x, [1, -1, 3]))[0]
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(y, [-1]), logits))
    return tape.gradient(loss, weights)


def one_round(algorithm, server, cohort):
    clients = algorithm.init_clients(server, np.asarray(cohort.weight), np.asarray(cohort.keys))
    proposals, deltas, training = algorithm.client_update(server, clients, cohort)
    server, shrink = algorithm.server_update(server, algorithm.aggregate(deltas, training.accepted))
    return server, algorithm.commit(clients, proposals, deltas, shrink, training.accepted), training


@pytest.mark.parametrize('clients, server_lr', [(1, 1.0), (2, 1.0), (1, 0.3)])
def test_one_full_batch_step_is_a_gradient_step_of_the_pooled_loss(data, clients, server_lr):
    # Clients of equal size, one step each: Σ N_i(w − η g_i − w)/N = −η · gradient of the pooled mean.
    network = make_network()
    algorithm = fedavg(network, baseline(server_lr=server_lr))
    cohort = full_batch(*(value[:clients] for value in data))
    start = algorithm.init(0)
    server, states, training = one_round(algorithm, start, cohort)
    gradient = pooled_gradient(network, start, cohort.x, cohort.y)
    for name, value in start.items():
        np.testing.assert_allclose(server[name] - value, -server_lr * 0.1 * gradient[name], rtol=1e-3, atol=1e-7)
    own = pooled_gradient(network, start, cohort.x[:1], cohort.y[:1])
    for name, value in start.items():
        np.testing.assert_allclose(states.deployed[name][0] - value, -0.1 * own[name], rtol=1e-3, atol=1e-7)
    assert np.all(training.accepted)


def test_clients_weigh_as_many_as_their_examples():
    algorithm = fedavg(make_network(), baseline(server_lr=0.5))
    server = {'w': tf.constant([1.0, 2.0])}
    trained = np.array([[3.0, 2.0], [0.0, 6.0]], np.float32)
    size = np.array([30.0, 10.0], np.float32)
    deltas = WeighedDelta({'w': size[:, None] * (trained - server['w'])}, tf.constant(size))
    updated, _ = algorithm.server_update(server, algorithm.aggregate(deltas, tf.constant([True, True])))
    # The mean weighted 3:1 is (2.25, 3); half of the way from (1, 2).
    np.testing.assert_allclose(updated['w'], [1.625, 2.5])


def test_a_clients_delta_is_its_move_times_its_size():
    simulation = make_simulation(baseline(), make_dataset(SIZES))
    state, ids = simulation.start(), np.arange(4)
    proposals, deltas, _ = simulation.algorithm.client_update(
        state.server, state.clients.read(ids), simulation.dataset.cohort(ids, 1, simulation.settings))
    assert np.array_equal(deltas.size, SIZES)
    for name, value in state.server.items():
        np.testing.assert_allclose(deltas.weighted[name], np.reshape(SIZES, (4, 1, 1)) * (
            proposals.deployed[name] - value), rtol=1e-6)


def test_a_round_without_an_accepted_client_moves_nothing():
    algorithm = fedavg(make_network(), baseline())
    server = algorithm.init(0)
    deltas = WeighedDelta({name: tf.fill([2, *value.shape], np.float32('nan')) for name, value in server.items()},
                   tf.constant([3.0, 4.0]))
    updated, _ = algorithm.server_update(server, algorithm.aggregate(deltas, tf.constant([False, False])))
    assert_nests_close(updated, server, rtol=0)


def test_fedprox_without_penalty_is_fedavg_bit_for_bit():
    dataset = make_dataset(SIZES)
    _, first, first_rows = play(baseline(), dataset)
    _, second, second_rows = play(baseline(method='fedprox', l2=0.0), dataset)
    for a, b in zip(first_rows, second_rows):
        assert {key: value for key, value in a.items() if not key.startswith('seconds')} == {
            key: value for key, value in b.items() if not key.startswith('seconds')}
    for name in first.server:
        assert np.array_equal(first.server[name], second.server[name])


def test_fedprox_with_penalty_is_not_fedavg():
    dataset = make_dataset(SIZES)
    servers = [play(settings, dataset)[1].server for settings in (
        baseline(epochs=5), baseline(method='fedprox', l2=1.0, epochs=5))]
    assert any(np.any(np.abs(servers[0][name] - servers[1][name]) > 1e-4) for name in servers[0])


def test_fedproxs_second_step_pays_the_gradient_of_half_l2_times_the_squared_distance(data):
    # Step 1 starts at w₀, where the penalty's gradient is 0; step 2 adds l2·(w₁ − w₀), with w₁ = w₀ − η g(w₀).
    network, rate, l2 = make_network(), 0.1, 0.7
    algorithm = fedprox(network, baseline(method='fedprox', l2=l2))
    start = algorithm.init(0)
    cohort = full_batch(*(value[:1] for value in data), steps=2)
    server, _, _ = one_round(algorithm, start, cohort)
    first = pooled_gradient(network, start, cohort.x, cohort.y)
    middle = {name: value - rate * first[name] for name, value in start.items()}
    variable = {name: tf.Variable(value) for name, value in middle.items()}
    with tf.GradientTape() as tape:
        penalty = sum(l2 / 2 * tf.reduce_sum(tf.square(variable[name] - start[name])) for name in start)
    pay = dict(zip(variable, tape.gradient(penalty, list(variable.values()))))
    second = pooled_gradient(network, middle, cohort.x, cohort.y)
    for name in start:
        np.testing.assert_allclose(server[name], middle[name] - rate * (second[name] + pay[name]), rtol=1e-5, atol=1e-7)
        assert np.max(np.abs(rate * pay[name])) > 1e-4, 'the penalty would be seen'


@pytest.mark.parametrize('private', ['joint', 'residual'])
def test_the_private_path_trains_also_for_the_baselines(private):
    dataset = make_dataset(SIZES)
    simulation, state, _ = play(baseline(private=private, clients_per_round=4), dataset)
    fresh = simulation.start().clients.read([0])
    trained = state.clients.read([0])
    for name, value in trained.private.items():
        assert np.any(value != fresh.private[name])
    assert all(np.all(value >= 0) for value in trained.gates.values())


def test_residual_leaves_the_shared_weights_where_none_has_them():
    dataset = make_dataset(SIZES)
    servers = [play(baseline(private=private), dataset)[1].server for private in ('none', 'residual')]
    assert_nests_close(*servers, rtol=1e-4, atol=1e-6)


def test_the_servers_function_takes_the_weights_and_one_delta():
    algorithm = fedavg(make_network(), baseline())
    assert list(inspect.signature(algorithm.server_update).parameters) == ['server', 'delta']
    server = algorithm.init(0)
    deltas = WeighedDelta({name: tf.ones([3, *value.shape]) for name, value in server.items()}, tf.ones([3]))
    total = algorithm.aggregate(deltas, tf.constant([True] * 3))
    assert total.size.shape == () and {name: value.shape for name, value in total.weighted.items()} == {
        name: value.shape for name, value in server.items()}
