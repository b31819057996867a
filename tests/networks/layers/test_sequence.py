import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
import tf_keras

from virtual_tf.core.random_streams import Stream, make_keys
from virtual_tf.networks import layers

tfd = tfp.distributions
CLIENTS, BATCH, STEPS, FEATURES, UNITS = 2, 3, 5, 4, 6


def make_weights(dtype=np.float32, seed=0):
    generator = np.random.default_rng(seed)
    return {name: tf.constant(generator.normal(size=(CLIENTS, *shape)).astype(dtype))
            for name, shape in layers.LSTM(UNITS).weight_shapes((STEPS, FEATURES)).items()}


@pytest.fixture(scope='module')
def x():
    return tf.constant(np.random.default_rng(1).normal(size=(CLIENTS, BATCH, STEPS, FEATURES)).astype(np.float32))


def test_lstm_and_its_gradients_are_those_of_keras(x):
    weights = make_weights()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch((weights, x))
        ours = layers.LSTM(UNITS).linear(weights, x)
        our_loss = tf.reduce_sum(tf.sin(ours))
    gradients = tape.gradient(our_loss, (weights, x))
    for c in range(CLIENTS):
        keras = tf_keras.layers.LSTM(UNITS, return_sequences=True)
        keras.build(x.shape[1:])
        keras.set_weights([weights[name][c] for name in ('kernel', 'recurrent', 'bias')])
        with tf.GradientTape() as tape:
            tape.watch(x)
            theirs = keras(x[c])
            their_loss = tf.reduce_sum(tf.sin(theirs))
        their_gradients = tape.gradient(their_loss, [*keras.trainable_variables, x])
        np.testing.assert_allclose(ours[c], theirs, atol=2e-6)
        for name, expected in zip(('kernel', 'recurrent', 'bias'), their_gradients):
            np.testing.assert_allclose(gradients[0][name][c], expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(gradients[1][c], their_gradients[-1][c], rtol=1e-4, atol=1e-5)


def test_lstm_with_vanishing_variance_is_the_deterministic_one(x):
    weights = make_weights()
    normals = {name: tfd.Normal(value, 1e-12 * tf.ones_like(value)) for name, value in weights.items()}
    noisy = layers.LSTM(UNITS).linear(normals, x, Stream(make_keys(0, ids=range(CLIENTS))))
    np.testing.assert_allclose(noisy, layers.LSTM(UNITS).linear(weights, x), atol=1e-6)
    np.testing.assert_array_equal(layers.LSTM(UNITS).linear(normals, x), layers.LSTM(UNITS).linear(weights, x))


def test_the_written_gradient_of_the_recurrence_matches_finite_differences():
    generator = np.random.default_rng(2)
    inputs = tf.constant(generator.normal(size=(3, 2, 2, 8)))
    recurrent = tf.constant(generator.normal(size=(2, 2, 8)))
    weights = tf.constant(generator.normal(size=(3, 2, 2, 2)))
    analytic, numeric = tf.test.compute_gradient(
        lambda a, b: tf.reduce_sum(weights * layers.recur(a, b)), [inputs, recurrent], delta=1e-5)
    for a, n in zip(analytic, numeric):
        np.testing.assert_allclose(a, n, rtol=1e-6, atol=1e-8)


def test_one_weight_sample_serves_a_whole_batch_and_all_its_time_steps():
    weights = {name: tfd.Normal(value, tf.ones_like(value)) for name, value in make_weights().items()}
    same = tf.ones([CLIENTS, BATCH, STEPS, FEATURES])
    hidden = layers.LSTM(UNITS).linear(weights, same, Stream(make_keys(0, ids=range(CLIENTS)))).numpy()
    # Equal sequences give equal states, as they would not with noise of their own.
    np.testing.assert_allclose(hidden[:, 1:], np.repeat(hidden[:, :1], BATCH - 1, axis=1), atol=1e-6)
    # The same draw as tensors gives the same states, so no time step drew again.
    stream = Stream(make_keys(0, ids=range(CLIENTS)))
    drawn = {name: layers.draw(weights[name], stream) for name in ('kernel', 'recurrent', 'bias')}
    np.testing.assert_allclose(hidden, layers.LSTM(UNITS).linear(drawn, same), atol=1e-6)


def test_a_first_step_has_the_predictive_moments_of_its_gaussian_gates():
    # From zero states h = σ(o)·tanh(σ(i)·tanh(g)) with independent Gaussian i, g, o: three-fold quadrature.
    scale = 0.7
    shapes = layers.LSTM(1).weight_shapes((1, 2))
    means = {name: np.random.default_rng(3).normal(size=(1, *shape)) for name, shape in shapes.items()}
    x = np.array([0.5, -1.2])
    gates = x @ means['kernel'][0] + means['bias'][0]
    deviation = scale * np.sqrt(np.sum(x ** 2) + 1.0)
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(40)
    node_weights = node_weights / node_weights.sum()
    i, g, o = np.meshgrid(*(gates[k] + deviation * nodes for k in (0, 2, 3)), indexing='ij')
    mass = np.einsum('i,j,k->ijk', node_weights, node_weights, node_weights)
    sigmoid = lambda value: 1 / (1 + np.exp(-value))  # noqa: E731
    values = sigmoid(o) * np.tanh(sigmoid(i) * np.tanh(g))
    expected_mean = np.sum(mass * values)
    expected_variance = np.sum(mass * values ** 2) - expected_mean ** 2
    count = 20000
    normals = {name: tfd.Normal(np.repeat(value, count, axis=0).astype(np.float32), np.float32(scale)
                                * tf.ones([count, *value.shape[1:]])) for name, value in means.items()}
    inputs = tf.constant(np.broadcast_to(x, [count, 1, 1, 2]).astype(np.float32))
    samples = layers.LSTM(1).linear(normals, inputs, Stream(make_keys(0, ids=range(count)))).numpy()
    assert abs(samples.mean() - expected_mean) <= 5 * np.sqrt(expected_variance / count)
    assert abs(samples.var() / expected_variance - 1) <= 0.05


def test_embedding_looks_up_one_draw_of_each_token():
    mean = np.random.default_rng(4).normal(size=(CLIENTS, 7, 3)).astype(np.float32)
    tokens = tf.constant([[[0, 6, 0]], [[3, 3, 1]]])
    layer = layers.Embedding(7, 3)
    plain = layer.linear({'kernel': tf.constant(mean)}, tokens).numpy()
    np.testing.assert_array_equal(plain[1, 0], mean[1, [3, 3, 1]])
    noisy = layer.linear({'kernel': tfd.Normal(mean, tf.ones_like(mean))}, tokens,
                         Stream(make_keys(0, ids=range(CLIENTS)))).numpy()
    np.testing.assert_array_equal(noisy[0, 0, 0], noisy[0, 0, 2])
    assert np.all(noisy[0, 0, 0] != plain[0, 0, 0])
    assert plain.shape[2:] == layer.output_shape((3,))


def test_forget_gates_start_open_and_other_biases_at_zero():
    bias = layers.LSTM(2).initial_mean('bias', (8,), Stream(make_keys(0)).normal, 'glorot', 0.0)
    np.testing.assert_array_equal(bias[0], [0, 0, 1, 1, 0, 0, 0, 0])
