
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from toys import make_dataset, make_network, make_settings

from virtual_tf.core.random_streams import Stream, fold_in, make_keys
from virtual_tf.data.federated import Split
from virtual_tf.methods import registry
from virtual_tf.networks import gated
from virtual_tf.simulator import evaluation

tfd = tfp.distributions

SIZES = (9, 5, 7, 12)


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


@pytest.fixture(scope='module')
def setting():
    """A Bayesian network, data, and clients with weights of their own."""
    dataset, network = make_dataset(SIZES), make_network()
    settings = make_settings(private='joint', init_scale=0.5)
    algorithm = registry.find('virtual').make(network, settings)
    server = algorithm.init(0)
    clients = algorithm.init_clients(server, np.full(4, 0.25, np.float32), make_keys(1, ids=range(4)))
    generator = np.random.default_rng(0)
    deployed = {name: value._replace(mean=value.mean + generator.normal(size=value.mean.shape).astype(np.float32))
                for name, value in clients.deployed.items()}
    return dataset, network, settings, algorithm, server, clients._replace(deployed=deployed)


def by_hand(probabilities, y):
    picked = probabilities[np.arange(len(y)), y]
    return -np.log(picked).sum(), (probabilities.argmax(axis=1) == y).sum()


def test_the_server_is_scored_on_every_clients_data(setting, monkeypatch):
    dataset, network, settings, algorithm, server, _ = setting
    monkeypatch.setattr(evaluation, '_CHUNK', 5)      # 15 test examples in chunks that cut through clients
    scores = evaluation.Evaluator(network, algorithm, dataset.test, settings).server(server)['server']
    means = {name: (value.chi / value.xi)[tf.newaxis] for name, value in server.items()}
    for i in range(4):
        x, y = dataset.test.client(i)
        logits = gated.logits(network, gated.without_private(means), tf.constant(x[np.newaxis])).numpy()[0]
        loss, hits = by_hand(softmax(logits), y)
        np.testing.assert_allclose(scores.sums['loss'][i], loss, rtol=1e-5)
        assert scores.sums['hits'][i] == hits and scores.targets[i] == len(y)


def test_a_client_is_scored_with_its_own_gated_network_on_its_own_data(setting):
    dataset, network, settings, algorithm, _, clients = setting
    ids = np.array([3, 1])
    own = tf.nest.map_structure(lambda value: tf.gather(value, ids), clients)
    scores = evaluation.Evaluator(network, algorithm, dataset.test, settings).clients(own, ids)['mt']
    weights = gated.Weights({name: value.mean for name, value in own.deployed.items()},
                             {name: value.mean for name, value in own.private.weights.items()}, own.private.gates)
    for row, i in enumerate(ids):
        x, y = dataset.test.client(i)
        one = gated.Weights(*({name: value[row:row + 1] for name, value in part.items()} for part in weights))
        loss, hits = by_hand(softmax(gated.logits(network, one, tf.constant(x[np.newaxis])).numpy()[0]), y)
        np.testing.assert_allclose(scores.sums['loss'][row], loss, rtol=1e-5)
        assert scores.sums['hits'][row] == hits and scores.targets[row] == len(y)


def test_eval_samples_average_probabilities_not_logits():
    network = make_network()
    keys = make_keys(2)
    generator = np.random.default_rng(0)
    weights = gated.without_private({
        name: tfd.Normal(generator.normal(size=(1, *shape)).astype(np.float32), np.ones((1, *shape), np.float32))
        for name, shape in network.shapes().items()})
    x = tf.constant(generator.normal(size=(1, 5, 3)), tf.float32)
    draws = [softmax(gated.logits(network, weights, x, Stream(fold_in(tf.constant(keys), i))).numpy())
             for i in range(4)]
    log_probabilities = evaluation.predict(network, weights, x, 4, keys)
    np.testing.assert_allclose(np.exp(log_probabilities), np.mean(draws, axis=0), rtol=1e-4)
    np.testing.assert_allclose(np.exp(log_probabilities).sum(axis=-1), np.ones([1, 5]), rtol=1e-5)
    assert not np.allclose(np.exp(log_probabilities), draws[0], rtol=1e-2)


def test_without_samples_the_prediction_is_that_of_the_means():
    network = make_network()
    shared = {name: tf.random.stateless_normal((1, *shape), [1, 2]) for name, shape in network.shapes().items()}
    uncertain = {name: tfd.Normal(value, 3.0) for name, value in shared.items()}
    x = tf.ones([1, 2, 3])
    expected = tf.nn.log_softmax(gated.logits(network, gated.without_private(shared), x))
    np.testing.assert_allclose(
        evaluation.predict(network, gated.without_private(uncertain), x, 0, make_keys(0)), expected, rtol=1e-5)


def test_a_summary_weighs_clients_by_their_test_targets():
    scores = evaluation.Scores(
        {'loss': np.array([3.0, 10.0, 0.0]), 'hits': np.array([2.0, 6.0, 0.0])}, np.array([2, 8, 0]))
    summary = scores.summary()
    # 8 hits and a loss of 13 in 10 targets; a client without targets has no accuracy.
    assert summary['accuracy'] == 0.8 and summary['cross_entropy'] == 1.3
    # Accuracies 1 and 3/4 with weights 2 and 8: mean 0.8, variance (2·0.04 + 8·0.0025)/10 = 0.01.
    np.testing.assert_allclose(summary['accuracy_std'], 0.1)


@pytest.mark.parametrize('per_call', [0, 2])
def test_each_client_samples_by_a_key_of_its_own(setting, per_call):
    dataset, network, settings, algorithm, server, clients = setting
    settings = settings.replace(eval_samples=2, clients_per_call=per_call)
    evaluator = evaluation.Evaluator(network, algorithm, dataset.test, settings)
    together = evaluator.clients(clients, np.arange(4))['mt_sampled']
    for i in range(4):
        one = tf.nest.map_structure(lambda value, i=i: value[i:i + 1], clients)
        np.testing.assert_allclose(evaluator.clients(one, np.array([i]))['mt_sampled'].sums['loss'],
                                   together.sums['loss'][i:i + 1], rtol=1e-5)
    # The same model on the same data under another client's key draws other weights.
    same = evaluation.Evaluator(network, algorithm, Split.of([dataset.test.client(0)] * 2), settings)
    twins = tf.nest.map_structure(lambda value: tf.repeat(value[:1], 2, axis=0), clients)
    first, second = same.clients(twins, np.arange(2))['mt_sampled'].sums['loss']
    assert first != pytest.approx(second, rel=1e-3)
    assert np.array_equal(*(evaluator.server(server)['server_sampled'].sums['loss'] for _ in range(2)))


def test_predictions_at_the_means_stand_beside_those_over_samples(setting):
    """One pass gives both; a method without Gaussians has one way alone."""
    dataset, network, settings, algorithm, server, _ = setting
    alone = evaluation.Evaluator(network, algorithm, dataset.test, settings).server(server)
    both = evaluation.Evaluator(network, algorithm, dataset.test, settings.replace(eval_samples=3)).server(server)
    assert list(alone) == ['server'] and list(both) == ['server', 'server_sampled']
    assert np.array_equal(alone['server'].sums['loss'], both['server'].sums['loss'])
    assert not np.allclose(both['server'].sums['loss'], both['server_sampled'].sums['loss'], rtol=1e-2)
    assert evaluation.ways_to_predict(make_settings(method='fedavg', eval_samples=3)) == {'': 0}
