import numpy as np
import pytest
import scipy.signal
import tensorflow as tf
import tensorflow_probability as tfp
import tf_keras

from virtual_tf.core.random_streams import Stream, make_keys
from virtual_tf.methods.virtual import gaussian
from virtual_tf.networks import layers

tfd = tfp.distributions
CLIENTS, BATCH, SIDE, CHANNELS, FILTERS = 2, 3, 6, 2, 4
SAMPLES = 2000


@pytest.fixture(scope='module')
def problem():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(CLIENTS, BATCH, SIDE, SIDE, CHANNELS)).astype(np.float32)
    mean = generator.normal(size=(CLIENTS, 5, 5, CHANNELS, FILTERS)).astype(np.float32)
    scale = generator.uniform(0.1, 0.5, mean.shape).astype(np.float32)
    return tf.constant(x), tf.constant(mean), tf.constant(scale)


def test_conv2d_is_correlation_with_zero_padding_client_by_client(problem):
    x, kernel, _ = (np.asarray(value) for value in problem)
    outputs = layers.conv2d(tf.constant(x), tf.constant(kernel)).numpy()
    for c in range(CLIENTS):
        for f in range(FILTERS):
            expected = sum(scipy.signal.correlate2d(x[c, 1, ..., i], kernel[c, ..., i, f], 'same')
                           for i in range(CHANNELS))
            np.testing.assert_allclose(outputs[c, 1, ..., f], expected, rtol=1e-4, atol=1e-4)


def sampled_moments(sample):
    draws = np.stack([sample(i) for i in range(SAMPLES)])
    return draws.mean(axis=0), draws.var(axis=0)


def assert_moments(mean, variance, expected_mean, expected_variance):
    """Within six standard errors; the variance of a Gaussian's sample variance is 2σ⁴/n."""
    assert np.all(np.abs(mean - expected_mean) <= 6 * np.sqrt(expected_variance / SAMPLES))
    assert np.all(np.abs(variance - expected_variance) <= 6 * expected_variance * np.sqrt(2 / SAMPLES))


def test_conv2d_samples_have_the_predictive_mean_and_variance(problem):
    x, mean, scale = problem
    # A convolution is linear in its kernel: mean conv(x, μ), variance conv(x², σ²).
    expected = layers.conv2d(x, mean).numpy(), layers.conv2d(tf.square(x), tf.square(scale)).numpy()
    sample = tf.function(lambda keys: layers.conv2d(x, tfd.Normal(mean, scale), stream=Stream(keys)))
    moments = sampled_moments(lambda i: sample(tf.constant(make_keys(i, ids=range(CLIENTS)))).numpy())
    assert_moments(*moments, *expected)


def test_conv2d_has_the_distribution_and_the_kl_of_tfp(problem):
    x, mean, scale = (value[:1] for value in problem)
    theirs = tfp.layers.Convolution2DReparameterization(
        FILTERS, 5, padding='same', bias_posterior_fn=None,
        kernel_posterior_fn=lambda *_: tfd.Independent(tfd.Normal(mean[0], scale[0]), 4),
        kernel_prior_fn=lambda *_: tfd.Independent(tfd.Normal(tf.zeros_like(mean[0]), 1.0), 4))
    sample = tf.function(lambda: theirs(x[0]))
    moments = sampled_moments(lambda _: sample().numpy())
    assert_moments(*moments, layers.conv2d(x, mean)[0].numpy(),
                   layers.conv2d(tf.square(x), tf.square(scale))[0].numpy())
    theirs(x[0])   # outside the graph, so that its loss is a number
    ours = gaussian.kl_divergence({'kernel': tfd.Normal(mean, scale)},
                                  {'kernel': tfd.Normal(tf.zeros_like(mean), 1.0)})
    np.testing.assert_allclose(ours[0], theirs.losses[-1], rtol=1e-5)


def test_conv2d_without_a_stream_uses_the_mean(problem):
    x, mean, scale = problem
    np.testing.assert_array_equal(layers.conv2d(x, tfd.Normal(mean, scale)), layers.conv2d(x, mean))


def test_biases_are_added_per_filter(problem):
    x, kernel, _ = problem
    bias = tf.constant([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    difference = layers.conv2d(x, kernel, bias) - layers.conv2d(x, kernel)
    np.testing.assert_allclose(difference, np.broadcast_to(bias[:, None, None, None], difference.shape), atol=1e-4)


def test_max_pool_is_that_of_keras(problem):
    x, _, _ = problem
    pooled = layers.MaxPool().linear({}, x)
    for c in range(CLIENTS):
        np.testing.assert_array_equal(pooled[c], tf_keras.layers.MaxPool2D()(x[c]))
    assert pooled.shape[2:] == layers.MaxPool().output_shape((SIDE, SIDE, CHANNELS))


def test_max_pool_leaves_out_what_does_not_fill_a_window():
    assert layers.MaxPool().output_shape((7, 5, 1)) == layers.MaxPool().linear({}, tf.zeros([1, 1, 7, 5, 1])).shape[2:]


def test_flatten_keeps_clients_and_examples(problem):
    x, _, _ = problem
    np.testing.assert_array_equal(layers.Flatten().linear({}, x), np.reshape(x, [CLIENTS, BATCH, -1]))
