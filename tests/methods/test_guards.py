import numpy as np
import pytest
import tensorflow as tf
import toys

from virtual_tf.methods import guards
from virtual_tf.networks import gated
from virtual_tf.networks.likelihood import negative_log_likelihood


def test_a_gradient_is_clipped_by_the_joint_norm_of_its_client():
    gradients = {'a': tf.constant([[3.0], [0.3], [0.0]]), 'b': tf.constant([[[4.0]], [[0.4]], [[0.0]]])}
    # Norms 5, 0.5 and 0: the first is halved.
    np.testing.assert_allclose(guards.clip_scale(gradients, 2.5), [0.5, 1.0, 1.0], rtol=1e-6)
    assert np.array_equal(guards.clip_scale(gradients, 0.0), np.ones(3)), 'zero clips nothing'


def test_the_norm_is_that_of_all_numbers_whatever_their_shape():
    generator = np.random.default_rng(0)
    leaves = [generator.normal(size=[2, *shape]).astype(np.float32) for shape in ((), (3,), (4, 5), (2, 3, 4, 5))]
    norms = np.sqrt(sum(np.sum(np.square(leaf.reshape(2, -1)), axis=1) for leaf in leaves))
    np.testing.assert_allclose(guards.clip_scale(list(map(tf.constant, leaves)), 1.5), 1.5 / norms, rtol=1e-5)


def test_the_largest_share_that_is_no_worse_is_kept():
    # f(p) = (p − a)² from p = 0 to 1: no worse as long as p ≤ 2a. The last two never are: a < 0, and f is no number.
    a = tf.constant([0.6, 0.5, 0.3, 0.13, 0.1, -1.0, np.nan])
    share = guards.backtrack(lambda p: tf.square(p - a), lambda share: share * tf.ones_like(a))
    assert np.array_equal(share, [1.0, 1.0, 0.5, 0.25, 0.0, 0.0, 0.0])


def test_the_objective_is_asked_no_more_often_than_needed():
    asked = []

    def objective(p):
        asked.append(p)
        return tf.square(p - 1.0)
    guards.backtrack(objective, lambda share: share * tf.ones(3))
    assert len(asked) == 2, 'the start and what was found'


def test_a_line_has_its_ends_to_the_bit_and_survives_what_is_not_finite():
    start, end = {'w': tf.constant([[0.1], [0.1], [0.1]])}, {'w': tf.constant([[0.7], [np.inf], [0.3]])}
    at = guards.line(start, end)
    found = at(tf.constant([1.0, 0.0, 0.5]))['w'].numpy()
    assert found[0] == np.float32(0.7) and found[1] == np.float32(0.1)
    np.testing.assert_allclose(found[2], 0.2, rtol=1e-6)
    assert np.array_equal(at(0.0)['w'], start['w'])


def mean_losses(simulation, models, ids):
    """Mean loss [C] of these clients' models on their own training data, at the mean weights."""
    x, y = simulation.dataset.train.padded(ids, int(simulation.dataset.train.sizes().max()))
    return negative_log_likelihood(gated.logits(simulation.network, models, x), tf.constant(y), y >= 0)[0].numpy()


@pytest.mark.parametrize('method', ['fedavg', 'fedprox', 'virtual'])
def test_a_client_that_runs_away_costs_the_federation_nothing(method):
    dataset, ids = toys.make_dataset((8, 8, 8)), np.arange(3)
    # The first client's examples are all alike and its labels contradict each other; steps are far too long for its
    # inputs, but its numbers stay finite.
    dataset.train.x[:8], dataset.train.y[:8] = 100.0, [0, 1] * 4
    settings = {'method': method, 'client_lr': 0.5, 'clients_per_round': 3, 'epochs': 3, 'batch_size': 3}
    deltas, trainings, before, after = {}, {}, None, {}
    for backtracking in (False, True):
        simulation = toys.make_simulation(toys.make_settings(**settings, backtracking=backtracking), dataset, hidden=())
        state = simulation.start()
        clients = state.clients.read(ids)
        before = mean_losses(simulation, simulation.algorithm.client_models(clients), ids)
        proposals, deltas[backtracking], trainings[backtracking] = simulation.algorithm.client_update(
            state.server, clients, dataset.cohort(ids, 1, simulation.settings))
        shrink = {name: tf.ones_like(value[0]) for name, value in state.server.items()} if method == 'virtual' else {}
        after[backtracking] = mean_losses(simulation, simulation.algorithm.client_models(simulation.algorithm.commit(
            clients, proposals, deltas[backtracking], shrink, tf.constant([True] * 3))), ids)
        assert np.all(trainings[backtracking].accepted), 'nothing became infinite'
    assert after[False][0] > before[0], 'without the guard the first client makes things worse'
    assert np.all(after[True] <= before * 1.05), 'noise aside, nobody is worse off than before the visit'
    assert trainings[True].details['shortened_updates'][0] == 1
    sent = [np.concatenate([np.ravel(leaf[0]) for leaf in tf.nest.flatten(deltas[guarded])[:1]])
            for guarded in (False, True)]
    assert np.linalg.norm(sent[1]) < 0.6 * np.linalg.norm(sent[0])


@pytest.mark.parametrize('method', ['fedavg', 'virtual'])
def test_clipped_steps_are_counted(method):
    dataset = toys.make_dataset((8, 8))
    settings = {'method': method, 'rounds': 1, 'epochs': 2, 'batch_size': 4}
    _, _, (free,) = toys.play(toys.make_settings(**settings), dataset)
    _, _, (clipped,) = toys.play(toys.make_settings(**settings, max_gradient_norm=1e-6), dataset)
    # Two clients, two epochs, two batches.
    assert (free['clipped_steps'], clipped['clipped_steps']) == (0, 8)
