"""The whole free energy over convolutional and recurrent networks, and every network under every method."""
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.toys import assert_posterior_is_product, make_settings
from virtual_tf.core.random_streams import make_keys
from virtual_tf.data.federated import FederatedDataset, Split
from virtual_tf.methods import registry
from virtual_tf.methods.virtual import free_energy, gaussian
from virtual_tf.methods.virtual.gaussian import Moments, normals
from virtual_tf.networks import gated, layers, likelihood, models
from virtual_tf.simulator import rounds

tfd = tfp.distributions
SIZE, KL_WEIGHT = 5, 0.3


def tiny_conv(classes=3):
    return gated.Network((('conv2d_1', layers.Conv2D(2, 3, activation=tf.tanh)), ('maxpool_1', layers.MaxPool()),
                           ('flatten_1', layers.Flatten()), ('dense_1', layers.Dense(classes))), (4, 4, 1))


def tiny_lstm(tokens=4):
    return gated.Network((('embedding_1', layers.Embedding(tokens, 2)), ('lstm_1', layers.LSTM(3)),
                           ('dense_1', layers.Dense(tokens))), (3,))


def conv_data(generator):
    return generator.normal(size=(1, SIZE, 4, 4, 1)), generator.integers(0, 3, (1, SIZE)).astype(np.int32)


def lstm_data(generator):
    y = generator.integers(0, 4, (1, SIZE, 3)).astype(np.int32)
    y[0, 2, 1:] = -1
    return generator.integers(0, 4, (1, SIZE, 3)).astype(np.int32), y


def random_moments(network, generator):
    return {name: Moments(tf.constant(generator.normal(0, 0.5, (1, *shape))),
                          tf.constant(generator.uniform(0.1, 0.3, (1, *shape))))
            for name, shape in network.shapes().items()}


@pytest.mark.parametrize('network, data', [(tiny_conv(), conv_data), (tiny_lstm(), lstm_data)], ids=['conv', 'lstm'])
def test_gradient_of_the_free_energy_matches_finite_differences(network, data):
    generator = np.random.default_rng(0)
    x, y = map(tf.constant, data(generator))
    moments = random_moments(network, generator)
    target = {name: gaussian.from_moments(tf.constant(generator.normal(size=value.mean.shape)),
                                          tf.constant(generator.uniform(0.5, 1.0, value.mean.shape)))
              for name, value in moments.items()}
    keys = tf.constant(make_keys(1))
    leaves = tf.nest.flatten(moments)

    def loss(*leaves):
        weights = normals(tf.nest.pack_sequence_as(moments, leaves))
        return likelihood.expected_loss(network, gated.without_private(weights), 'none', x, y, y >= 0, keys)[0]

    @tf.function
    def value(*leaves):
        belief = normals(tf.nest.pack_sequence_as(moments, leaves))
        return loss(*leaves) + KL_WEIGHT / SIZE * gaussian.kl_divergence(belief, gaussian.to_normal(target))[0]

    with tf.GradientTape() as tape:
        tape.watch(leaves)
        likely = loss(*leaves)
    of_likelihood = tape.gradient(likely, leaves)
    of_kl = tf.nest.flatten({name: free_energy.kl_gradient(moments[name], target[name]) for name in moments})
    step = 1e-5
    for index, leaf in enumerate(leaves):
        analytic = (of_likelihood[index] + KL_WEIGHT / SIZE * of_kl[index]).numpy().ravel()
        for position in np.random.default_rng(index).choice(leaf.shape.num_elements(), 3):
            bump = np.zeros(leaf.shape.num_elements())
            bump[position] = step
            up, down = ([*leaves[:index], leaf + sign * bump.reshape(leaf.shape), *leaves[index + 1:]]
                        for sign in (1, -1))
            numeric = (value(*up) - value(*down)) / (2 * step)
            np.testing.assert_allclose(analytic[position], numeric, rtol=1e-5, atol=1e-7)


def gradients_and_loss(network, weights, x, y, mask):
    with tf.GradientTape() as tape:
        tape.watch(weights)
        # Tensors for weights draw no noise, whose number would depend on the padding.
        loss, sums = likelihood.expected_loss(network, gated.without_private(weights), 'none', x, y, mask, make_keys(0))
    return tf.nest.flatten((loss, sums, tape.gradient(loss, weights)))


def test_padding_a_sequence_or_a_batch_changes_neither_loss_nor_gradient():
    network, generator = tiny_lstm(), np.random.default_rng(5)
    x, y = lstm_data(generator)
    weights = {name: value.mean for name, value in random_moments(network, generator).items()}
    plain = gradients_and_loss(network, weights, tf.constant(x), tf.constant(y), tf.constant(y >= 0))
    longer = np.pad(x, [(0, 0), (0, 0), (0, 4)]), np.pad(y, [(0, 0), (0, 0), (0, 4)], constant_values=-1)
    more = np.pad(x, [(0, 0), (0, 2), (0, 0)]), np.pad(y, [(0, 0), (0, 2), (0, 0)], constant_values=-1)
    for padded_x, padded_y in (longer, more):
        padded = gradients_and_loss(network, weights, tf.constant(padded_x), tf.constant(padded_y), padded_y >= 0)
        for a, b in zip(plain, padded):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def federated(data, classes, clients=3):
    generator = np.random.default_rng(7)

    def split():
        pairs = (data(generator) for _ in range(clients))
        return Split.of([(x[0].astype(np.float32) if x.dtype == np.float64 else x[0], y[0]) for x, y in pairs])
    return FederatedDataset('tiny', ('a', 'b', 'c'), split(), split(), classes)


@pytest.mark.parametrize('method', ['virtual', 'fedavg', 'fedprox'])
@pytest.mark.parametrize('private', ['none', 'joint', 'residual'])
@pytest.mark.parametrize('network, data, classes', [(tiny_conv(), conv_data, 3), (tiny_lstm(), lstm_data, 4)],
                         ids=['conv', 'lstm'])
def test_networks_train_under_every_method_with_and_without_private_weights(network, data, classes, private, method):
    settings = make_settings(method=method, private=private, rounds=2)
    simulation = rounds.Simulation(
        network, registry.find(method).make(network, settings), federated(data, classes), settings)
    state = simulation.start()
    before = tf.nest.flatten(state.server)
    history = list(simulation.run(state))
    assert all(row['dropped_clients'] == 0 and np.isfinite(row['mt/cross_entropy']) for row in history)
    assert all(np.any(a != b) for a, b in zip(before, tf.nest.flatten(state.server)))
    if method == 'virtual':
        assert_posterior_is_product(state, 3)


def test_the_papers_networks_have_the_papers_sizes():
    # 784·100 + 100·100 + 100·10 weights; conv: 5·5·1·32 + 5·5·32·64 and 7·7·64 inputs to the perceptron.
    count = lambda network: sum(np.prod(shape) for shape in network.shapes().values())  # noqa: E731
    assert count(models.build('mlp', (28, 28, 1), 10)) == 89_400
    assert count(models.build('conv', (28, 28, 1), 10)) == 800 + 51_200 + 3136 * 100 + 100 * 100 + 100 * 10
    # Per LSTM layer 4·units·(inputs + units + 1); embedding 87·8, softmax 100·87.
    assert count(models.build('lstm', (80,), 87)) == 87 * 8 + 400 * (8 + 101) + 400 * (100 + 101) + 100 * 87


@pytest.mark.parametrize('network, data', [(tiny_conv(), conv_data), (tiny_lstm(), lstm_data)])
def test_one_trace_serves_any_number_of_examples(network, data):
    x, _ = data(np.random.default_rng(0))
    weights = gated.without_private({name: value.mean for name, value in random_moments(
        network, np.random.default_rng(1)).items()})
    traced = tf.function(lambda x: gated.logits(network, weights, x), autograph=False, input_signature=[
        tf.TensorSpec([1, None, *network.input_shape], x.dtype)])
    for count in (1, SIZE):
        np.testing.assert_allclose(traced(x[:, :count]), gated.logits(network, weights, tf.constant(x[:, :count])),
                                   rtol=1e-12)
