import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from toys import make_network

from virtual_tf.core.random_streams import Stream, make_keys
from virtual_tf.networks import gated, layers, models

tfd = tfp.distributions


def random_weights(network, clients, seed=0, private=True):
    generator = np.random.default_rng(seed)

    def draw(shapes):
        return {name: tf.constant(generator.normal(size=(clients, *shape))) for name, shape in shapes.items()}

    gates = {name: tf.abs(value) for name, value in draw(network.gate_shapes()).items()}
    return gated.Weights(draw(network.shapes()), draw(network.shapes()) if private else {}, gates if private else {})


def test_the_papers_perceptron_has_two_hidden_layers_of_100_units_and_no_biases():
    network = models.build('mlp', (28, 28, 1), 10)
    assert network.shapes() == {'dense_1/kernel': (784, 100), 'dense_2/kernel': (100, 100), 'dense_3/kernel': (100, 10)}
    assert network.gate_shapes() == {'dense_1': (100,), 'dense_2': (100,), 'dense_3': (10,)}
    # 784·100 + 100·100 + 100·10
    assert sum(int(np.prod(shape)) for shape in network.shapes().values()) == 89_400
    biased = models.build('mlp', (28, 28, 1), 10, use_bias=True).shapes()
    assert biased['dense_2/bias'] == (100,) and biased['dense_3/bias'] == (10,)


def test_logits_are_the_forward_pass_of_the_models_docstring_written_out():
    network = make_network(hidden=(4,), use_bias=True)
    weights = random_weights(network, clients=2)
    x = np.random.default_rng(1).normal(size=(2, 5, 3))
    result = gated.logits(network, weights, tf.constant(x))
    for i in range(2):
        theta, phi = ({name: value[i].numpy() for name, value in part.items()} for part in weights[:2])
        gate = {name: value[i].numpy() for name, value in weights.gates.items()}
        u = np.maximum(x[i] @ phi['dense_1/kernel'] + phi['dense_1/bias'], 0)
        h = np.maximum(x[i] @ theta['dense_1/kernel'] + theta['dense_1/bias'] + gate['dense_1'] * u, 0)
        u = u @ phi['dense_2/kernel'] + phi['dense_2/bias']
        expected = h @ theta['dense_2/kernel'] + theta['dense_2/bias'] + gate['dense_2'] * u
        np.testing.assert_allclose(result[i], expected, rtol=1e-10)


def test_closed_gates_are_the_servers_network():
    network = make_network()
    weights = random_weights(network, clients=2)
    x = tf.constant(np.random.default_rng(1).normal(size=(2, 5, 3)))
    closed = weights._replace(gates=tf.nest.map_structure(tf.zeros_like, weights.gates))
    shared = gated.without_private(weights.shared)
    assert np.array_equal(gated.logits(network, closed, x), gated.logits(network, shared, x))
    assert not np.allclose(gated.logits(network, weights, x), gated.logits(network, closed, x))


def test_a_network_of_certain_gaussians_is_the_deterministic_one():
    network = make_network()
    weights = random_weights(network, clients=1)
    x = tf.constant(np.random.default_rng(1).normal(size=(1, 5, 3)))
    certain = weights._replace(
        shared={name: tfd.Normal(value, tf.fill(value.shape, tf.constant(1e-9, tf.float64)))
                for name, value in weights.shared.items()})
    sampled = gated.logits(network, certain, x, Stream(make_keys(0), tf.float64))
    np.testing.assert_allclose(sampled, gated.logits(network, weights, x), atol=1e-6)


@pytest.mark.parametrize('mean_init, variance', [('normal', 0.3 ** 2), ('glorot', 2 / (80 + 50))])
def test_initial_means_are_normal_with_the_asked_variance(mean_init, variance):
    network = make_network(hidden=(50,), features=80, use_bias=True)
    means = gated.initial_means(network, make_keys(0), mean_init, 0.3)
    kernel = means['dense_1/kernel'].numpy().ravel()
    assert scipy.stats.kstest(kernel / np.sqrt(variance), 'norm').pvalue > 1e-3
    assert np.array_equal(means['dense_1/bias'], np.zeros([1, 50]))


def test_initial_means_depend_on_the_clients_key_alone():
    network, keys = make_network(hidden=(7, 5)), make_keys(0, ids=range(3))
    together = gated.initial_means(network, keys, 'glorot', 0.0)
    alone = gated.initial_means(network, keys[1:2], 'glorot', 0.0)
    for name in network.shapes():
        assert np.array_equal(together[name][1:2], alone[name])
        assert not np.any(together[name][0] == together[name][1])


def test_gates_start_open_by_the_same_amount():
    gates = gated.initial_gates(make_network(), 2, 0.3)
    assert {name: value.shape for name, value in gates.items()} == {'dense_1': (2, 4), 'dense_2': (2, 2)}
    assert all(np.all(value == np.float32(0.3)) for value in gates.values())


def test_a_registered_model_is_built_by_its_name(monkeypatch):
    monkeypatch.setattr(models, 'MODELS', dict(models.MODELS))

    @models.register('linear')
    def linear(input_shape, num_classes):
        return (layers.Dense(num_classes),)

    assert models.build('linear', (7,), 3).shapes() == {'dense_1/kernel': (7, 3)}
