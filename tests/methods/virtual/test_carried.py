"""What the loop carries in place of σ: the same numbers to the bit, with the same derivatives."""
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from toys import make_dataset, make_network, make_settings, make_simulation

from virtual_tf.methods.virtual import carried, local_inference
from virtual_tf.methods.virtual.gaussian import Moments

tfd = tfp.distributions


@pytest.mark.parametrize('compiler', [False, True])
def test_the_root_of_a_rounded_square_is_the_number(compiler):
    scale = np.exp(np.random.default_rng(0).uniform(np.log(1e-6), np.log(1e3), 100_000)).astype(np.float32)

    @tf.function(jit_compile=compiler)
    def there_and_back(scale):
        return carried.BY_VARIANCE.unpack(carried.BY_VARIANCE.pack(Moments(scale, scale))).scale
    np.testing.assert_array_equal(there_and_back(scale), scale)


def test_its_variance_is_what_is_carried_and_slopes_as_that_of_a_normal():
    moments = Moments(tf.constant([0.5, -1.0]), tf.constant([0.3, 2.0]))
    slopes = []
    for normal in (tfd.Normal, lambda *given: carried.CarriedNormal(*given, tf.constant([0.09, 4.0]))):
        with tf.GradientTape() as tape:
            tape.watch(moments)
            belief = normal(*moments)
            value = tf.reduce_sum(tf.constant([3.0, 5.0]) * belief.variance() + tf.square(belief.mean()))
        slopes.append(tape.gradient(value, moments))
        np.testing.assert_allclose(belief.variance(), [0.09, 4.0], rtol=1e-6)
    np.testing.assert_array_equal(slopes[0], slopes[1])
    np.testing.assert_allclose(slopes[1].scale, [2 * 3 * 0.3, 2 * 5 * 2.0], rtol=1e-6)     # d/dσ of a·σ² is 2·a·σ
    np.testing.assert_allclose(tfd.kl_divergence(belief, tfd.Normal(*moments)), [0.0, 0.0], atol=1e-6)
    assert belief.copy().batch_shape == [2] and belief[:1].variance().numpy() == [np.float32(0.09)]


@pytest.mark.parametrize('changes', [
    {}, {'precision_update': 'sgd'}, {'private': 'joint'}, {'private': 'residual'}, {'estimator': 'sample'}])
def test_training_comes_to_the_same_bits(monkeypatch, changes):
    """Also of clients that stand still: their sizes differ."""
    settings, found = make_settings(compile='xla', rounds=1, **changes), []
    for carrier in (carried.AS_IT_IS, carried.BY_VARIANCE):
        monkeypatch.setattr(local_inference, 'carriers', lambda network, settings, carrier=carrier: {
            name: carrier for name in network.shapes()})
        simulation = make_simulation(settings, make_dataset())
        state, ids = simulation.start(), np.arange(settings.clients_per_round)
        states, deltas, _, _ = simulation.train(state.server, state.clients.read(ids), ids, 1)
        found.append([value.numpy() for value in tf.nest.flatten((states, deltas))])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize('changes, by_variance', [
    ({}, True), ({'compile': 'graph'}, False), ({'preset': 'authors'}, False), ({'estimator': 'sample'}, False)])
def test_only_what_xla_would_square_is_carried_by_variance(changes, by_variance):
    settings = make_settings(**({'compile': 'xla'} | changes))
    network = make_network(estimator=settings.estimator)
    found = carried.carriers(network, settings)
    assert found == dict.fromkeys(network.shapes(), carried.BY_VARIANCE if by_variance else carried.AS_IT_IS)
