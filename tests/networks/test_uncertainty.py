import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

from virtual_tf.core import random_streams
from virtual_tf.networks import gated, layers, uncertainty
from virtual_tf.networks.gated import Network, Weights

tfd = tfp.distributions
KEYS = np.array([[3, 0]], np.uint32)
MEAN, SCALE = 0.7, 1.5


@pytest.fixture(scope='module')
def linear():
    """A network with logits (w·x, 0), w ~ N(MEAN, SCALE²)."""
    network = Network((('dense_1', layers.Dense(2)),), (1,))
    kernel = tfd.Normal(tf.constant([[[MEAN, 0.0]]]), tf.constant([[[SCALE, 1e-12]]]))
    return network, gated.without_private({'dense_1/kernel': kernel})


@pytest.mark.parametrize('probabilities', [[0.25] * 4, [1.0, 0.0, 0.0], [0.9, 0.1], [0.5, 0.3, 0.2]])
def test_entropy_is_scipys_and_zeros_add_nothing(probabilities):
    with np.errstate(divide='ignore'):
        found = uncertainty.entropy(tf.constant(np.log(probabilities), tf.float32))
    np.testing.assert_allclose(found, scipy.stats.entropy(probabilities), atol=1e-6)


def test_mutual_information_of_networks_that_agree_and_that_contradict_each_other():
    def of(*predictions):
        draws = np.log(np.array(predictions, np.float32))
        return uncertainty.mutual_information(np.log(np.exp(draws).mean(axis=0)),
                                              tf.reduce_mean(uncertainty.entropy(draws), axis=0)).numpy()
    with np.errstate(divide='ignore'):
        assert of([0.3, 0.7], [0.3, 0.7]) == pytest.approx(0.0, abs=1e-6)
        # Each is certain, together they know nothing: all of log 2 is information about the weights.
        assert of([1.0, 0.0], [0.0, 1.0]) == pytest.approx(np.log(2), rel=1e-6)
    expected = scipy.stats.entropy([0.5, 0.5]) - scipy.stats.entropy([0.9, 0.1])
    assert of([0.9, 0.1], [0.1, 0.9]) == pytest.approx(expected, rel=1e-5)


def test_sampled_predictions_are_the_integral_over_the_posterior(linear):
    x, samples = 1.3, 4000
    log_mean, entropies = tf.function(uncertainty.predict, autograph=False)(
        *linear, tf.constant([[[x]]]), KEYS, tf.constant(samples))
    points, masses = np.polynomial.hermite_e.hermegauss(80)
    p = scipy.special.expit(x * (MEAN + SCALE * points))
    masses = masses / masses.sum()
    for found, values in ((np.exp(log_mean[0, 0, 0]), p),
                          (entropies[0, 0], scipy.stats.entropy(np.stack([p, 1 - p])))):
        expected = masses @ values
        error = np.sqrt(masses @ (values - expected) ** 2 / samples)
        assert abs(found - expected) < 4 * error


def test_an_example_gets_the_same_in_any_batch(linear):
    x = np.random.default_rng(0).normal(size=(1, 5, 1)).astype(np.float32)
    together = uncertainty.predict(*linear, tf.constant(x), KEYS, 7)
    for i in range(5):
        alone = uncertainty.predict(*linear, tf.constant(x[:, i:i + 1]), KEYS, 7)
        for whole, one in zip(together, alone):
            np.testing.assert_allclose(whole[:, i:i + 1], one, atol=1e-6)


def test_a_drawn_network_is_mean_plus_scale_times_its_stream_and_gates_stay():
    normal = tfd.Normal(tf.constant([[1.0, -2.0]]), tf.constant([[0.5, 3.0]]))
    weights = Weights({'a': normal, 'b': tf.constant([[4.0]])}, {'a': normal}, {'layer': tf.constant([[0.3]])})
    drawn = uncertainty.draw_network(weights, KEYS)
    stream = random_streams.Stream(KEYS)
    for path in (drawn.shared, drawn.private):
        np.testing.assert_allclose(path['a'], normal.loc + normal.scale * stream.normal([2]), rtol=1e-6)
    assert drawn.shared['b'] is weights.shared['b'] and drawn.gates is weights.gates
