import numpy as np
import pytest
import tensorflow as tf
from toys import full_batch

from virtual_tf.core.random_streams import make_generator, make_keys
from virtual_tf.data import cohorts
from virtual_tf.data.cohorts import Cohort
from virtual_tf.methods import local_sgd
from virtual_tf.methods.virtual import free_energy
from virtual_tf.methods.virtual.gaussian import Moments, NaturalGaussian, from_moments, power, product


@pytest.mark.parametrize('size, epochs, batch_size, steps',
                         [(20, 3, 20, 3), (21, 3, 20, 6), (1, 2, 20, 2), (40, 1, 7, 6)])
def test_the_partial_last_batch_is_a_step(size, epochs, batch_size, steps):
    assert cohorts.steps_per_round(size, epochs, batch_size) == steps


def test_every_epoch_of_a_plan_shows_every_example_once_in_a_new_order():
    size, epochs, batch_size, steps = 11, 3, 4, 12
    plan = cohorts.plan_batches(size, epochs, batch_size, steps, make_generator(0))
    assert plan.shape == (steps, batch_size)
    per_epoch = plan[:9].reshape(epochs, 3 * batch_size)      # ⌈11/4⌉ = 3 steps an epoch
    for epoch in per_epoch:
        assert np.array_equal(np.sort(epoch[:size]), np.arange(size))
        assert np.all(epoch[size:] == -1)
    assert len(np.unique(per_epoch, axis=0)) == epochs
    assert np.all(plan[9:] == -1), 'a client whose epochs are done takes no step'


def test_a_plan_depends_on_the_length_of_the_others_only_by_padding():
    short, long = (cohorts.plan_batches(5, 2, 4, steps, make_generator(7)) for steps in (4, 9))
    assert np.array_equal(short, long[:4]) and np.all(long[4:] == -1)


def mean_problem(sizes, epochs, batch_size):
    """Clients whose loss is the mean of ½‖p − x‖² over a batch, in float64; every client has data of its own."""
    generator = np.random.default_rng(0)
    data = [generator.normal(size=(size, 2)) for size in sizes]
    length, steps = max(sizes), cohorts.steps_per_round(max(sizes), epochs, batch_size)
    x = np.stack([np.pad(rows, ((0, length - len(rows)), (0, 0)), constant_values=1e6) for rows in data])
    y = np.stack([np.where(np.arange(length) < size, 1, -1) for size in sizes]).astype(np.int32)
    batches = np.stack([cohorts.plan_batches(size, epochs, batch_size, steps, make_generator(i))
                        for i, size in enumerate(sizes)])
    return data, Cohort(*map(tf.constant, (x, y, np.int32(sizes), np.ones(len(sizes)), batches,
                                           make_keys(0, ids=range(len(sizes))), np.ones(len(sizes)))))


def mean_gradient(parameters, x, y, mask, step):
    real = tf.cast(mask, x.dtype)
    count = tf.reduce_sum(real, axis=1)
    difference = real[..., tf.newaxis] * (parameters[:, tf.newaxis] - x)
    losses = 0.5 * tf.reduce_sum(difference ** 2, axis=[1, 2])
    return tf.reduce_sum(difference, axis=1) / tf.maximum(count, 1.0)[:, tf.newaxis], (losses, count, count)


def by_hand(rows, plan, rate):
    """Plain SGD of one client; returns the parameters and the mean loss over all that it saw."""
    p, total, count = np.zeros(2), 0.0, 0
    for positions in plan:
        chosen = rows[positions[positions >= 0]]
        if len(chosen):
            total, count = total + 0.5 * np.square(p - chosen).sum(), count + len(chosen)
            p = p - rate * (p - chosen).mean(axis=0)
    return p, total / count


def test_unequal_clients_train_as_each_alone_on_its_own_data():
    sizes, rate = (9, 3, 1, 6), 0.25
    data, cohort = mean_problem(sizes, epochs=3, batch_size=4)
    trained, fit = local_sgd.sgd(mean_gradient, local_sgd.descend(rate), tf.zeros([4, 2], tf.float64), cohort)
    for i, rows in enumerate(data):
        expected, expected_loss = by_hand(rows, cohort.batches.numpy()[i], rate)
        np.testing.assert_allclose(trained[i], expected, rtol=1e-12)
        np.testing.assert_allclose(fit.loss[i], expected_loss, rtol=1e-12)
    # Hits were counted for every target.
    np.testing.assert_allclose(fit.accuracy, np.ones(4))
    assert np.array_equal(fit.clipped, np.zeros(4))


def test_the_loop_stops_with_the_longest_client_of_the_cohort():
    _, cohort = mean_problem((9, 3), epochs=3, batch_size=4)
    seen = []

    def gradient(parameters, x, y, mask, step):
        tf.py_function(lambda t: seen.append(int(t)), [step], [])
        return mean_gradient(parameters, x, y, mask, step)

    short = cohort._replace(**{name: value[1:] for name, value in cohort._asdict().items()})
    local_sgd.sgd(gradient, local_sgd.descend(0.25), tf.zeros([1, 2], tf.float64), short)
    # 3 epochs of ⌈3/4⌉ = 1 step, although the plan has room for the larger client's 9.
    assert seen == [0, 1, 2]


def test_project_is_applied_after_every_step():
    _, cohort = mean_problem((4,), epochs=5, batch_size=4)
    move = local_sgd.descend(0.5, lambda p: tf.clip_by_value(p, -0.01, 0.01))
    trained, _ = local_sgd.sgd(mean_gradient, move, tf.zeros([1, 2], tf.float64), cohort)
    assert np.all(np.abs(trained) <= 0.01) and np.any(trained != 0)


@pytest.mark.parametrize('kl_weight', [1.0, 0.3])
def test_sgd_reaches_the_closed_form_minimiser_of_a_conjugate_model(kl_weight):
    """x_n ~ N(θ, 1/τ): −E_q[log L] + β·KL(q ‖ target) is least at q ∝ target · L^{1/β}, with L's χ = τΣx, ξ = τN."""
    generator = np.random.default_rng(1)
    clients, examples, weights, noise_precision, rate = 3, 5, 4, 2.0, 0.125
    x = generator.normal(size=(clients, examples, weights))
    posterior = {'w': from_moments(*map(tf.constant, (generator.normal(size=weights), np.full(weights, 0.5))))}
    exponent = tf.fill([clients], tf.constant(1 / clients, tf.float64))
    prior = {'w': from_moments(tf.zeros([1, weights], tf.float64), tf.ones([1, weights], tf.float64))}
    beliefs = {'w': NaturalGaussian(*(tf.repeat(leaf[tf.newaxis], clients, axis=0) for leaf in posterior['w']))}
    cavity = free_energy.cavity(posterior, power(beliefs, exponent))
    target, floored = free_energy.regulariser(free_energy.cavity_prior(prior, cavity, exponent), posterior, 0.1)
    assert np.array_equal(floored, np.zeros(clients))

    def gradient(q, x, y, mask, step):
        # mean over the batch of τ/2·((μ − x)² + σ²), the expected negative log-likelihood, and β/N times the KL
        likelihood = Moments(noise_precision * (q.mean - tf.reduce_mean(x, axis=1)), noise_precision * q.scale)
        sums = [tf.ones([clients], tf.float64)] * 3
        return free_energy.implicit_gradient(likelihood, q, target['w'], kl_weight / examples, rate), sums

    cohort = full_batch(x, np.zeros([clients, examples], np.int32), np.ones(clients), make_keys(0, ids=range(clients)),
                        steps=400)
    start = Moments(tf.zeros([clients, weights], tf.float64), tf.ones([clients, weights], tf.float64))
    q, _ = local_sgd.sgd(gradient, local_sgd.descend(rate), start, cohort)
    likelihood = {'w': NaturalGaussian(noise_precision * tf.constant(x.sum(axis=1)),
                                       tf.fill(start.mean.shape, tf.constant(noise_precision * examples, tf.float64)))}
    expected = product(target, power(likelihood, tf.constant(1 / kl_weight, tf.float64)))['w']
    np.testing.assert_allclose(from_moments(*q), expected, rtol=1e-9)
