import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from virtual_tf.core.random_streams import Stream, make_keys
from virtual_tf.methods.virtual import gaussian
from virtual_tf.networks import layers

tfd = tfp.distributions

INPUTS, UNITS = 3, 4
SAMPLES = 20_000
ESTIMATORS = ('local', 'sample')


@pytest.fixture(scope='module')
def weights():
    """Moments of a kernel [1, I, O] and a bias [1, O], and one example [I]."""
    generator = np.random.default_rng(0)
    arrays = (generator.normal(size=(1, INPUTS, UNITS)), generator.uniform(0.2, 1.0, size=(1, INPUTS, UNITS)),
              generator.normal(size=(1, UNITS)), generator.uniform(0.2, 1.0, size=(1, UNITS)), [0.5, -1.0, 2.0])
    return tuple(np.asarray(array, np.float32) for array in arrays)


def moments_of(outputs):
    outputs = np.asarray(outputs).reshape(-1, UNITS)
    return outputs.mean(axis=0), outputs.var(axis=0)


def ours(weights, estimator, use_bias=True):
    """Many outputs for one example: as many clients with the same weights, each with noise of its own."""
    kernel_mean, kernel_scale, bias_mean, bias_scale, x = weights

    def stack(value):
        return tf.repeat(tf.constant(value), SAMPLES, axis=0)

    bias = tfd.Normal(stack(bias_mean), stack(bias_scale)) if use_bias else None
    return layers.dense(stack(x[np.newaxis, np.newaxis]), tfd.Normal(stack(kernel_mean), stack(kernel_scale)), bias,
                        Stream(make_keys(0, ids=range(SAMPLES))), estimator)


def theirs(weights, layer_type, calls, use_bias=True):
    """Outputs of a tfp layer with the same posterior, and its KL from a standard normal prior."""
    kernel_mean, kernel_scale, bias_mean, bias_scale, x = weights

    def fixed(mean, scale):
        return lambda *_: tfd.Independent(tfd.Normal(mean[0], scale[0]), reinterpreted_batch_ndims=mean.ndim - 1)

    layer = layer_type(UNITS, kernel_posterior_fn=fixed(kernel_mean, kernel_scale),
                       bias_posterior_fn=fixed(bias_mean, bias_scale) if use_bias else None,
                       bias_prior_fn=fixed(np.zeros_like(bias_mean), np.ones_like(bias_scale)))
    rows = tf.repeat(tf.constant(x[np.newaxis]), SAMPLES // calls, axis=0)
    outputs = [layer(rows)]
    kl = float(tf.add_n(layer.losses))
    again = tf.function(layer)
    return np.concatenate(outputs + [again(rows) for _ in range(calls - 1)]), kl


def assert_same_moments(first, second, variance):
    """Equal to within 5 standard errors of a difference of two sample means, or sample variances."""
    (mean_1, variance_1), (mean_2, variance_2) = first, second
    assert np.all(np.abs(mean_1 - mean_2) < 5 * np.sqrt(2 * variance / SAMPLES))
    # The variance of normal samples has standard error variance·√(2/n).
    assert np.all(np.abs(variance_1 - variance_2) < 5 * variance * np.sqrt(2 * 2 / SAMPLES))


def expected_moments(weights, use_bias=True):
    kernel_mean, kernel_scale, bias_mean, bias_scale, x = weights
    return (x @ kernel_mean[0] + use_bias * bias_mean[0],
            np.square(x) @ np.square(kernel_scale[0]) + use_bias * np.square(bias_scale[0]))


def test_local_reparameterisation_has_the_output_distribution_of_tfp(weights):
    # Without a bias, which tfp would draw once a call for all rows.
    mean, variance = expected_moments(weights, use_bias=False)
    own = moments_of(ours(weights, 'local', use_bias=False))
    outputs, _ = theirs(weights, tfp.layers.DenseLocalReparameterization, calls=1, use_bias=False)
    assert_same_moments(own, (mean, variance), variance)
    assert_same_moments(own, moments_of(outputs), variance)


def test_local_reparameterisation_of_a_bias_adds_its_variance(weights):
    mean, variance = expected_moments(weights)
    assert_same_moments(moments_of(ours(weights, 'local')), (mean, variance), variance)


def test_weight_sampling_has_the_output_distribution_of_tfp(weights):
    # tfp draws weights once a call; a call of one row gives one independent output.
    mean, variance = expected_moments(weights)
    own = moments_of(ours(weights, 'sample'))
    assert_same_moments(own, (mean, variance), variance)
    calls = 1000
    outputs, _ = theirs(weights, tfp.layers.DenseReparameterization, calls)
    their_mean, their_variance = moments_of(outputs.reshape(calls, -1, UNITS)[:, 0])
    assert np.all(np.abs(own[0] - their_mean) < 5 * np.sqrt(variance * (1 / calls + 1 / SAMPLES)))
    assert np.all(np.abs(own[1] - their_variance) < 5 * variance * np.sqrt(2 * (1 / calls + 1 / SAMPLES)))


@pytest.mark.parametrize('layer_type', [tfp.layers.DenseLocalReparameterization, tfp.layers.DenseReparameterization])
def test_the_kl_is_that_of_the_tfp_layer(weights, layer_type):
    kernel_mean, kernel_scale, bias_mean, bias_scale, _ = weights
    _, kl = theirs(weights, layer_type, calls=1)
    belief = {'kernel': tfd.Normal(kernel_mean, kernel_scale), 'bias': tfd.Normal(bias_mean, bias_scale)}
    prior = {name: tfd.Normal(tf.zeros_like(value.loc), tf.ones_like(value.loc)) for name, value in belief.items()}
    np.testing.assert_allclose(gaussian.kl_divergence(belief, prior)[0], kl, rtol=1e-5)


def test_local_noise_differs_between_examples_and_sampled_weights_do_not(weights):
    kernel = tfd.Normal(weights[0], weights[1])
    x = tf.ones([1, 2, INPUTS])
    local, sampled = (layers.dense(x, kernel, None, Stream(make_keys(0)), name) for name in ESTIMATORS)
    assert np.all(local[0, 0] != local[0, 1])
    assert np.array_equal(sampled[0, 0], sampled[0, 1])


def test_without_a_stream_the_means_are_used(weights):
    kernel_mean, kernel_scale, bias_mean, bias_scale, x = weights
    outputs = layers.dense(x[np.newaxis, np.newaxis], tfd.Normal(kernel_mean, kernel_scale),
                           tfd.Normal(bias_mean, bias_scale))
    np.testing.assert_allclose(outputs[0, 0], x @ kernel_mean[0] + bias_mean[0], rtol=1e-5)


def test_every_client_uses_its_own_weights_also_with_further_axes():
    generator = np.random.default_rng(1)
    x, kernel, bias = (generator.normal(size=shape) for shape in ((2, 5, 7, 3), (2, 3, 4), (2, 4)))
    expected = np.stack([x[i] @ kernel[i] + bias[i] for i in range(2)])
    np.testing.assert_allclose(layers.dense(tf.constant(x), tf.constant(kernel), tf.constant(bias)), expected)


@pytest.mark.parametrize('estimator', ESTIMATORS)
def test_a_unit_that_no_input_reaches_has_finite_gradients(weights, estimator):
    mean, scale = tf.constant(weights[0]), tf.constant(weights[1])
    x = tf.concat([tf.zeros([1, 1, INPUTS]), tf.ones([1, 1, INPUTS])], axis=1)
    with tf.GradientTape() as tape:
        tape.watch((mean, scale, x))
        outputs = layers.dense(x, tfd.Normal(mean, scale), None, Stream(make_keys(0)), estimator)
        # Not a square: its derivative is 0 where the output is, and TensorFlow takes 0 · ∞ for 0 in a root's gradient.
        loss = tf.reduce_sum(outputs)
    gradients = tape.gradient(loss, (mean, scale, x))
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert np.any(np.asarray(gradients[1]) != 0), 'the other example still trains the scales'


def test_a_dense_layer_tells_its_shapes():
    plain, biased = layers.Dense(5), layers.Dense(5, use_bias=True)
    assert plain.weight_shapes((7, 3)) == {'kernel': (3, 5)}
    assert biased.weight_shapes((3,)) == {'kernel': (3, 5), 'bias': (5,)}
    assert plain.output_shape((7, 3)) == (7, 5)


def test_flatten_joins_the_axes_of_an_example():
    x = tf.reshape(tf.range(24.0), [2, 2, 3, 2])
    flat = layers.Flatten()
    assert flat.output_shape((3, 2)) == (6,) and flat.weight_shapes((3, 2)) == {}
    assert np.array_equal(flat.linear({}, x), np.arange(24.0).reshape(2, 2, 6))
