import numpy as np
import pytest
import scipy.special
import scipy.stats
import small_runs

from virtual_tf.core.errors import VirtualTfError


@pytest.fixture(scope='module')
def gaussian():
    return small_runs.fresh_models('mlp', 'virtual', init_scale=0.3)


@pytest.fixture(scope='module')
def x():
    return small_runs.make_data('mlp').test.x


def forward(weights, x):
    """The gated perceptron of networks/gated.py, in NumPy: probabilities […, N, classes] of weights […, in, out]."""
    h = u = x
    for name in ('dense_1', 'dense_2', 'dense_3'):
        act, lateral = (lambda value: value) if name == 'dense_3' else (lambda value: np.maximum(value, 0.0)), 0.0
        if f'private/{name}/kernel' in weights:
            u = act(u @ weights[f'private/{name}/kernel'])
            lateral = weights[f'gates/{name}'] * u
        h = act(h @ weights[f'{name}/kernel'] + lateral)
    return scipy.special.softmax(h, axis=-1)


@pytest.mark.parametrize('which', [0, 1])
def test_predictions_at_the_means_are_those_of_the_equations(gaussian, x, which):
    model = gaussian[which]
    found = model.predict(x)
    np.testing.assert_allclose(found.probabilities, forward(model.weights, x), atol=1e-5)
    np.testing.assert_allclose(found.entropy, scipy.stats.entropy(found.probabilities, axis=-1), atol=1e-5)
    assert not found.mutual_information.any()


def test_sampled_predictions_are_the_mean_over_networks_of_the_joint_posterior(gaussian, x):
    client, samples = gaussian[1], 1000
    found = client.predict(x, samples=samples, seed=1)
    drawn = client.joint.sample(samples, seed=5)
    gates = {name: value for name, value in client.weights.items() if name.startswith('gates/')}
    expected = forward({name: value.numpy() for name, value in drawn.items()} | gates, x)
    # Two means of independent samples: their difference has twice the variance of one.
    error = expected.std(axis=0) * np.sqrt(2 / samples)
    assert (np.abs(found.probabilities - expected.mean(axis=0)) < 5 * error + 1e-6).all()
    entropies = scipy.stats.entropy(expected, axis=-1)
    information = scipy.stats.entropy(expected.mean(axis=0), axis=-1) - entropies.mean(axis=0)
    np.testing.assert_allclose(found.mutual_information, information, atol=0.05)
    assert (information > 0.05).any()


def test_a_seed_draws_the_same_networks_for_any_batch(gaussian, x):
    server = gaussian[0]
    whole, part = server.predict(x, samples=4, seed=2), server.predict(x[3:5], samples=4, seed=2)
    np.testing.assert_allclose(whole.probabilities[3:5], part.probabilities, atol=1e-6)
    assert np.abs(whole.probabilities - server.predict(x, samples=4, seed=3).probabilities).max() > 1e-3


def test_chunks_make_no_difference(gaussian, x, monkeypatch):
    whole = gaussian[1].predict(x, samples=2)
    monkeypatch.setattr('virtual_tf.runs.model._CHUNK', 7)
    for one, other in zip(whole, gaussian[1].predict(x, samples=2)):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_log_prob_is_the_logarithm_of_the_targets_probability(gaussian, x):
    y = small_runs.make_data('mlp').test.y
    found = gaussian[1].log_prob(x, y)
    np.testing.assert_allclose(np.exp(found), gaussian[1].predict(x).probabilities[np.arange(len(y)), y], rtol=1e-5)


def test_sequences_have_a_prediction_at_every_position_and_none_without_target():
    data = small_runs.make_data('lstm')
    _, client = small_runs.fresh_models('lstm', 'fedavg')
    found = client.predict(data.test.x)
    assert found.probabilities.shape == (*data.test.y.shape, small_runs.CLASSES)
    np.testing.assert_allclose(found.probabilities.sum(axis=-1), 1.0, rtol=1e-5)
    assert (np.isnan(client.log_prob(data.test.x, data.test.y)) == (data.test.y < 0)).all()


def test_the_joint_posterior_is_the_product_of_the_weights(gaussian):
    client = gaussian[1]
    assert {name for name in client.posterior if name.startswith('private/')} and 'dense_1/kernel' in client.posterior
    value = {name: normal.loc + normal.scale for name, normal in client.posterior.items()}
    # One deviation from the mean, everywhere: −½ − log σ − ½ log 2π.
    expected = sum(float(np.sum(-0.5 - np.log(normal.scale) - 0.5 * np.log(2 * np.pi)))
                   for normal in client.posterior.values())
    assert float(client.joint.log_prob(value)) == pytest.approx(expected, rel=1e-5)


def test_weights_that_are_numbers_have_no_posterior_and_leave_nothing_to_learn(x):
    server, _ = small_runs.fresh_models('mlp', 'fedavg')
    with pytest.raises(VirtualTfError, match="'server' has no posterior: the weights of fedavg are numbers"):
        server.posterior     # noqa: B018
    sampled = server.predict(x, samples=3)
    np.testing.assert_allclose(sampled.probabilities, server.predict(x).probabilities, atol=1e-6)
    np.testing.assert_allclose(sampled.mutual_information, 0.0, atol=1e-6)


@pytest.mark.parametrize('change, sentence', [
    (lambda x: x[0], r'x has the shape \(3,\) of one example; give a batch'),
    (lambda x: x[:, :2], "x has 2 features an example where the run's data has 3"),
    (lambda x: x[:, :, None], r"x has the shape \(18, 3, 1\) where the run's data has \[N, 3\]"),
    (lambda x: x[:0], 'x has no examples'),
    (lambda x: np.where(np.arange(18)[:, None] == 4, np.nan, x), 'example 4 of x has a number that is not finite'),
    (lambda x: x.astype(str), 'x is of type <U.*; give numbers'),
    (lambda x: np.abs(x).astype(np.uint8), "x is of type uint8 where the run's data is float32")])
def test_examples_that_do_not_fit_are_one_sentence(gaussian, x, change, sentence):
    with pytest.raises(VirtualTfError, match=sentence):
        gaussian[0].predict(change(x))


def test_labels_ids_and_samples_that_do_not_fit_are_one_sentence(gaussian, x):
    y = np.zeros(len(x), int)
    for wrong, sentence in ((y[1:], r'y has the shape \(17,\)'), (y + 4, 'y has the label 4 where .* 0 to 3'),
                            (y - 1, 'y has the label -1'), (y + 0.5, 'need whole numbers')):
        with pytest.raises(VirtualTfError, match=sentence):
            gaussian[0].evaluate(x, wrong)
    with pytest.raises(VirtualTfError, match='samples must be at least 0, got -1'):
        gaussian[0].predict(x, samples=-1)
    server, _ = small_runs.fresh_models('lstm', 'fedavg')
    with pytest.raises(VirtualTfError, match=r'x has the id 4 where .* 0 to 3'):
        server.predict([[1, 4, 0]])
    with pytest.raises(VirtualTfError, match='no ids'):
        server.predict([[1, 0.5, 0]])
