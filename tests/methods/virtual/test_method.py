import importlib
import inspect
import itertools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
import toys
from toys import assert_nests_close, full_batch, make_dataset, make_network, make_settings, make_simulation

from virtual_tf.core.random_streams import Stream, fold_in, make_keys
from virtual_tf.data.cohorts import steps_per_round
from virtual_tf.methods import registry
from virtual_tf.methods.local_sgd import Fit
from virtual_tf.methods.virtual import free_energy, gaussian
from virtual_tf.methods.virtual.gaussian import Moments, NaturalGaussian, from_moments, power, product, ratio
from virtual_tf.methods.virtual.method import Proposal, apply_delta, virtual
from virtual_tf.networks import gated

tfd = tfp.distributions

SIZES = (9, 5, 7, 12)


def as_double(nest):
    return tf.nest.map_structure(lambda value: tf.cast(value, tf.float64), nest)


@pytest.fixture(scope='module')
def played():
    """A run in which the clients' factors have become different: (simulation, state)."""
    settings = make_settings(rounds=4, damping=0.7, server_lr=0.6, init_scale=0.3, client_lr=0.05, min_precision=0.1)
    return toys.play(settings, make_dataset(SIZES))[:2]


# --- the conjugate model -----------------------------------------------------------------------------------------

NOISE_PRECISION, WEIGHTS = 2.0, 3


def closed_form(kl_weight):
    """A minimiser of Eq. 3 for x_n ~ N(θ, 1/τ): q ∝ target · L^{1/β}, with χ = τΣx and ξ = τN of the likelihood."""
    def minimise(network, settings, start, private, target, prior, cohort):
        (name, value), = target.items()
        size = tf.cast(cohort.size, tf.float32)
        likelihood = NaturalGaussian(
            NOISE_PRECISION * tf.reduce_sum(cohort.x, axis=1)[..., tf.newaxis],
            NOISE_PRECISION * tf.reshape(size, [-1, 1, 1]) * tf.ones_like(value.xi))
        q = gaussian.to_moments({name: product(value, power(likelihood, 1.0 / kl_weight))})
        return q, private, Fit(*[tf.zeros_like(size)] * 2, tf.zeros_like(size, tf.int32))
    return minimise


def conjugate_round(algorithm, server, clients, cohort):
    proposals, deltas, training = algorithm.client_update(server, clients, cohort)
    server, shrink = algorithm.server_update(server, algorithm.aggregate(deltas, training.accepted))
    assert all(np.all(r == 1.0) for r in shrink.values()), 'nothing is shrunk'
    return server, algorithm.commit(clients, proposals, deltas, shrink, training.accepted)


def rows(nest, ids):
    return tf.nest.map_structure(lambda value: tf.gather(value, ids), nest)


@pytest.mark.parametrize('kl_weight', [1.0, 0.4])
@pytest.mark.parametrize('visits', [*([[i] for i in order] for order in itertools.permutations(range(3))),
                                    [[0, 1, 2]], [[1], [0, 2]]], ids=str)
def test_conjugate_clients_visited_once_give_the_exact_posterior(monkeypatch, visits, kl_weight):
    # The package's attribute of that name is the function `virtual`.
    module = importlib.import_module('virtual_tf.methods.virtual.method')
    monkeypatch.setattr(module, 'minimise_free_energy', closed_form(kl_weight))
    generator = np.random.default_rng(0)
    x = generator.normal(size=(3, 6, WEIGHTS)).astype(np.float32)
    weight = np.array([0.2, 0.3, 0.5], np.float32)
    settings = make_settings(damping=1.0, server_lr=1.0, kl_weight=kl_weight, init_scale=0.5, prior_scale=0.8,
                             min_precision=0.01)
    algorithm = virtual(make_network(hidden=(), features=WEIGHTS, classes=1), settings)
    server = algorithm.init(0)
    keys = make_keys(0, ids=range(3))
    clients = algorithm.init_clients(server, weight, keys)
    cohort = full_batch(x, np.zeros([3, 6], np.int32), weight, keys)
    for ids in visits:
        server, updated = conjugate_round(algorithm, server, rows(clients, ids), rows(cohort, ids))
        clients = tf.nest.map_structure(lambda old, new, ids=ids: tf.tensor_scatter_nd_update(
            old, [[i] for i in ids], new), clients, updated)
    # p Π L_i^{1/β}: natural parameters add; p = N(0, 0.8²).
    posterior, = server.values()
    chi, xi = NOISE_PRECISION * x.sum(axis=(0, 1)) / kl_weight, 0.8 ** -2 + NOISE_PRECISION * 18 / kl_weight
    np.testing.assert_allclose(posterior.chi[:, 0], chi, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(posterior.xi, np.full([WEIGHTS, 1], xi), rtol=1e-5)
    factor, = clients.factor.values()
    # factor_i = p^{w_i} L_i^{1/β}
    np.testing.assert_allclose(factor.xi[:, 0, 0], weight / 0.8 ** 2 + NOISE_PRECISION * 6 / kl_weight, rtol=1e-5)


def test_pvi_comes_to_the_exact_posterior_of_the_conjugate_model_by_its_damping(monkeypatch):
    # All clients in every round: factor_i ← factor_i^{1−γ} · (p^{w_i} L_i)^γ, so of the start (1 − γ)^T is left.
    module = importlib.import_module('virtual_tf.methods.virtual.method')
    monkeypatch.setattr(module, 'minimise_free_energy', closed_form(1.0))
    x = np.random.default_rng(0).normal(size=(3, 6, WEIGHTS)).astype(np.float32)
    settings = registry.make_settings({
        'preset': 'pvi', 'compile': 'graph', 'init_scale': 0.5, 'prior_scale': 0.8, 'backtracking': False})
    algorithm = virtual(make_network(hidden=(), features=WEIGHTS, classes=1), settings)
    weight, keys, rounds = np.full(3, 1 / 3, np.float32), make_keys(0, ids=range(3)), 4
    start = server = algorithm.init(0)
    clients = algorithm.init_clients(server, weight, keys)
    cohort = full_batch(x, np.zeros([3, 6], np.int32), weight, keys)
    for _ in range(rounds):
        server, clients = conjugate_round(algorithm, server, clients, cohort)
    left = (1.0 - settings.damping) ** rounds
    exact = NOISE_PRECISION * x.sum(axis=(0, 1)), 0.8 ** -2 + NOISE_PRECISION * 18
    for (value,), (first,), goal in zip(zip(*server.values()), zip(*start.values()), exact):
        np.testing.assert_allclose(value[:, 0], left * first[:, 0] + (1.0 - left) * goal, rtol=1e-4, atol=1e-4)


# --- initialisation, deltas, bookkeeping -------------------------------------------------------------------------

@pytest.mark.parametrize('private', ['none', 'joint'])
def test_initial_factors_multiply_to_the_posterior_and_clients_deploy_it(private):
    weight = np.array([0.1, 0.6, 0.3], np.float32)
    algorithm = virtual(make_network(), make_settings(private=private, init_scale=0.05, private_scale=0.02))
    server = algorithm.init(3)
    clients = algorithm.init_clients(server, weight, make_keys(0, ids=range(3)))
    for name, value in server.items():
        np.testing.assert_allclose(value.xi, np.full(value.xi.shape, 0.05 ** -2), rtol=1e-5)
        for whole, parts in zip(value, clients.factor[name]):
            np.testing.assert_allclose(tf.reduce_sum(parts, axis=0), whole, rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(clients.deployed[name].mean, np.tile(value.chi / value.xi, (3, 1, 1)), rtol=1e-5)
        np.testing.assert_allclose(clients.deployed[name].scale, np.full((3, *value.xi.shape), 0.05), rtol=1e-5)
    assert set(clients.private.weights) == (set() if private == 'none' else set(server))
    assert all(np.all(value.scale == np.float32(0.02)) for value in clients.private.weights.values())


def test_the_delta_is_the_damped_proposal_over_the_old_factor(played):
    simulation, state = played
    ids, damping = np.arange(4), simulation.settings.damping
    clients = state.clients.read(ids)
    cohort = simulation.dataset.cohort(ids, 9, simulation.settings)
    proposals, deltas, _ = simulation.algorithm.client_update(state.server, clients, cohort)
    for name, posterior in as_double(state.server).items():
        q = from_moments(*as_double(proposals.deployed[name]))
        factor, delta = as_double(clients.factor[name]), as_double(deltas[name])
        cavity = free_energy.cavity(posterior, factor)
        literal = ratio(product(power(ratio(q, cavity), tf.constant(damping, tf.float64)),
                                power(factor, tf.constant(1 - damping, tf.float64))), factor)
        for ours, written_out, scale in zip(delta, literal, q):
            # Differences of float32 natural parameters: exact to some ulp of the parameters themselves.
            assert np.all(np.abs(ours - written_out) <= 2e-6 * (np.abs(scale) + 1.0))
        assert np.max(np.abs(delta.chi)) > 1e-2, 'the clients have moved'


def test_posterior_is_the_product_of_factors_after_rounds_with_damping_and_server_rate(played):
    _, state = played
    toys.assert_posterior_is_product(state, 4)
    factors = state.clients.read([0, 1, 2, 3]).factor
    assert any(np.any(np.abs(value.xi[0] - value.xi[1]) > 1e-3) for value in factors.values())


def test_the_authors_bookkeeping_keeps_the_damped_proposal():
    algorithm = virtual(make_network(), make_settings(factor_bookkeeping='authors', server_lr=0.3))
    server = algorithm.init(0)
    clients = algorithm.init_clients(server, np.array([0.5, 0.5], np.float32), make_keys(0, ids=range(2)))
    deltas = tf.nest.map_structure(tf.ones_like, clients.factor)
    shrink = {name: tf.ones_like(value.xi) for name, value in server.items()}
    accepted = tf.constant([True, True])
    kept = algorithm.commit(clients, Proposal(clients.private, clients.deployed, {}), deltas, shrink, accepted)
    assert_nests_close(kept.factor, product(clients.factor, deltas))


@pytest.mark.parametrize('drop', [1.0, 0.5])
def test_a_falling_precision_is_shrunk_to_its_floor_and_chi_by_the_same_share(drop):
    posterior = {'w': NaturalGaussian(tf.constant([4.0, 4.0, 4.0]), tf.constant([10.0, 10.0, 10.0]))}
    delta = {'w': NaturalGaussian(tf.constant([2.0, 2.0, 2.0]), tf.constant([5.0, -8.0, -40.0]))}
    updated, shrink = apply_delta(posterior, delta, 0.5, 2.0, drop)
    # η_sΔξ = 2.5, −4, −20; the floor is m = 2, or half of 10: only the last falls below it.
    floor = max(2.0, (1 - drop) * 10.0)
    r = (10.0 - floor) / 20.0
    np.testing.assert_allclose(shrink['w'], [1.0, 1.0, r], rtol=1e-6)
    np.testing.assert_allclose(updated['w'].xi, [12.5, 6.0, floor], rtol=1e-6)
    np.testing.assert_allclose(updated['w'].chi, [5.0, 5.0, 4.0 + 0.5 * r * 2.0], rtol=1e-6)


def test_posterior_is_the_product_of_factors_when_precisions_are_shrunk():
    generator = np.random.default_rng(0)
    algorithm = virtual(make_network(), make_settings(server_lr=0.8, init_scale=0.5, min_precision=3.0))
    server = algorithm.init(0)
    clients = algorithm.init_clients(server, np.full(3, 1 / 3, np.float32), make_keys(0, ids=range(3)))
    shrunk = 0
    for _ in range(5):
        deltas = tf.nest.map_structure(
            lambda value: tf.constant(generator.normal(size=value.shape), tf.float32), clients.factor)
        accepted = tf.constant(generator.uniform(size=3) < 0.7)
        server, shrink = algorithm.server_update(server, algorithm.aggregate(deltas, accepted))
        proposals = Proposal(clients.private, clients.deployed, {})
        clients = algorithm.commit(clients, proposals, deltas, shrink, accepted)
        shrunk += sum(int(tf.reduce_sum(tf.cast(r < 1.0, tf.int32))) for r in shrink.values())
        assert all(np.all(value.xi >= 3.0) for value in server.values())
        for name, value in server.items():
            for whole, parts in zip(value, clients.factor[name]):
                np.testing.assert_allclose(tf.reduce_sum(parts, axis=0), whole, rtol=1e-4, atol=1e-4)
    assert shrunk > 10
    assert any(np.any(value.xi < 0) for value in clients.factor.values()), 'an improper factor is legal'


# --- what the client minimises -----------------------------------------------------------------------------------

@pytest.mark.parametrize('private', ['none', 'joint'])
def test_for_one_client_in_all_loss_and_kl_are_minus_the_elbo_over_n(private):
    settings = make_settings(private=private, kl_weight=1.0, client_lr=1e-30, estimator='sample', init_scale=0.3)
    network = make_network(estimator='sample')
    algorithm = virtual(network, settings)
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(1, 8, 3)).astype(np.float32), generator.integers(0, 2, (1, 8)).astype(np.int32)
    keys, weight = make_keys(5), np.ones(1, np.float32)
    server = algorithm.init(0)
    clients = algorithm.init_clients(server, weight, keys)
    _, _, training = algorithm.client_update(server, clients, full_batch(x, y, weight, keys))
    free = training.loss + (training.details['kl/shared'] + training.details['kl/private']) / 8
    # The step is too small to be seen, so q and c_i are the initial beliefs; their noise is that of step 0, stream 0.
    beliefs = algorithm.client_models(clients)
    logits = gated.logits(network, beliefs, x, Stream(fold_in(fold_in(tf.constant(keys), 0), 0)))
    elbo = tf.reduce_sum(tfd.Categorical(logits=logits).log_prob(y))
    for weights in (beliefs.shared, beliefs.private):
        elbo -= sum(tf.reduce_sum(tfd.kl_divergence(value, tfd.Normal(0.0, settings.prior_scale)))
                    for value in weights.values())
    np.testing.assert_allclose(free[0], -elbo / 8, rtol=1e-5)


def test_residual_leaves_the_shared_posterior_where_none_has_it():
    dataset = make_dataset(SIZES)
    servers = {}
    for private in ('none', 'residual', 'joint'):
        _, state, _ = toys.play(make_settings(private=private, rounds=4, init_scale=0.2), dataset)
        servers[private] = state.server
    assert_nests_close(servers['none'], servers['residual'], rtol=1e-4, atol=1e-4)
    assert any(np.any(np.abs(a - b) > 1e-2) for a, b in zip(*map(tf.nest.flatten, (servers['none'], servers['joint']))))


@pytest.mark.parametrize('private', ['none', 'residual'])
def test_stacked_training_is_client_by_client_training(private):
    simulation = make_simulation(make_settings(private=private), make_dataset(SIZES))
    state = simulation.start()
    ids = np.arange(4)
    together = simulation.algorithm.client_update(
        state.server, state.clients.read(ids), simulation.dataset.cohort(ids, 1, simulation.settings))
    for i in ids:
        alone = simulation.algorithm.client_update(
            state.server, state.clients.read([i]), simulation.dataset.cohort(ids[i:i + 1], 1, simulation.settings))
        # One ulp of a natural parameter is 3e-5 of 400, the precision at σ = 0.05.
        assert_nests_close(rows(together, [i]), alone, rtol=1e-4, atol=2e-3)


def test_unequal_clients_train_as_each_alone_on_its_own_data():
    simulation = make_simulation(make_settings(init_scale=0.2), make_dataset(SIZES))
    settings, state, ids = simulation.settings, simulation.start(), np.arange(4)
    cohort = simulation.dataset.cohort(ids, 1, settings)
    # What stands in the padding must not matter, so it is made absurd.
    x = np.where(np.arange(max(SIZES))[None, :, None] < np.array(SIZES)[:, None, None], cohort.x, 1e6)
    clients = state.clients.read(ids)
    together = simulation.algorithm.client_update(state.server, clients, cohort._replace(x=x.astype(np.float32)))
    for i, size in enumerate(SIZES):
        steps = steps_per_round(size, settings.epochs, settings.batch_size)
        own = cohort._replace(x=cohort.x[i:i + 1, :size], y=cohort.y[i:i + 1, :size], size=cohort.size[i:i + 1],
                              weight=cohort.weight[i:i + 1], keys=cohort.keys[i:i + 1], step=cohort.step[i:i + 1],
                              batches=cohort.batches[i:i + 1, :steps])
        alone = simulation.algorithm.client_update(state.server, rows(clients, [i]), own)
        assert_nests_close(rows(together, [i]), alone, rtol=1e-4, atol=2e-4)
        assert int(own.size[0]) == size


def test_mt_tests_the_trained_or_the_damped_belief(played):
    simulation, state = played
    dataset = simulation.dataset
    ids = np.arange(2)
    results = {}
    for name in ('trained', 'damped'):
        changed = make_simulation(make_settings(mt_model=name, damping=0.7, init_scale=0.3), dataset)
        results[name] = changed.algorithm.client_update(
            state.server, state.clients.read(ids), dataset.cohort(ids, 1, changed.settings))
    for name, posterior in state.server.items():
        q = from_moments(*results['trained'][0].deployed[name])
        damped = from_moments(*results['damped'][0].deployed[name])
        # s^{1−γ} q^γ
        expected = product(power(posterior, 0.3), power(q, 0.7))
        np.testing.assert_allclose(damped.xi, expected.xi, rtol=1e-4)
        np.testing.assert_allclose(damped.chi, expected.chi, rtol=1e-4, atol=1e-4)


def test_a_step_in_natural_coordinates_descends_in_chi_and_xi():
    dataset, rate, ids = make_dataset(SIZES), 1e-2, np.arange(2)
    moved = {}
    for name, client_lr in (('mean_scale', rate), ('natural', rate)):
        settings = make_settings(parameterisation=name, client_lr=client_lr, epochs=1, batch_size=20, init_scale=0.5)
        simulation = make_simulation(settings, dataset)
        state = simulation.start()
        proposals, _, _ = simulation.algorithm.client_update(
            state.server, state.clients.read(ids), dataset.cohort(ids, 1, settings))
        moved[name] = proposals.deployed
    for name, (chi, xi) in state.server.items():
        mean, scale = chi / xi, xi ** -0.5
        step = tf.nest.map_structure(lambda new, old: (old - new) / rate, moved['mean_scale'][name], Moments(
            *(tf.broadcast_to(value, [2, *value.shape]) for value in (mean, scale))))
        # ∂F/∂χ = ∂F/∂μ / ξ
        new = from_moments(*moved['natural'][name])
        np.testing.assert_allclose((chi - new.chi) / rate, step.mean / xi, atol=3e-4)


# --- what the server gets to see ---------------------------------------------------------------------------------

def test_the_servers_functions_take_nothing_of_a_single_client(monkeypatch):
    simulation = make_simulation(make_settings(private='residual'), make_dataset(SIZES))
    algorithm = simulation.algorithm
    assert list(inspect.signature(algorithm.server_update).parameters) == ['posterior', 'delta']
    assert list(inspect.signature(algorithm.aggregate).parameters) == ['deltas', 'accepted']
    calls = {'server_update': [], 'aggregate': []}

    def record(name):
        def call(*arguments):
            calls[name].append(arguments)
            return getattr(algorithm, name)(*arguments)
        return call

    simulation.algorithm = algorithm._replace(**{name: record(name) for name in calls})
    state = simulation.start()
    factors = state.clients.read(simulation.cohort_ids(1)).factor
    before = state.server
    simulation.play_round(state)
    (posterior, delta), = calls['server_update']
    assert posterior is before
    shapes = simulation.network.shapes()
    for argument in (posterior, delta):
        # One Gaussian per shared weight, without a client axis, and nothing else.
        assert {name: (value.chi.shape, value.xi.shape) for name, value in argument.items()} == {
            name: (shape, shape) for name, shape in shapes.items()}
    (deltas, accepted), = calls['aggregate']
    assert accepted.shape == (2,) and set(deltas) == set(shapes)
    for name in shapes:
        assert not np.any(np.isclose(deltas[name].xi, factors[name].xi, rtol=1e-3)), 'a delta is no factor'


# --- what may be set beside the paper ----------------------------------------------------------------------------

@pytest.mark.parametrize('given', [
    {'precision_update': 'natural'}, {'backtracking': True, 'max_gradient_norm': 0.5, 'client_lr': 5.0},
    {'mt_model': 'tuned', 'fine_tune': 2}, {'delta_weighting': 'size'}, {'server_decay': 2.0},
    {'private': 'after', 'precision_update': 'natural', 'gate_prior': 0.1, 'prune': 50}], ids=str)
def test_posterior_is_the_product_of_factors_with_every_setting(given):
    settings = make_settings(**{'rounds': 3, 'damping': 0.7, 'server_lr': 0.6, 'init_scale': 0.3, 'min_precision': 0.1,
                                **given})
    simulation, state, history = toys.play(settings, make_dataset(SIZES))
    toys.assert_posterior_is_product(state, 4)
    assert all(np.isfinite(row['server/cross_entropy']) for row in history)
    moved = [np.max(np.abs(new - old)) for new, old in zip(
        tf.nest.flatten(state.server), tf.nest.flatten(simulation.algorithm.init(settings.seed)))]
    assert max(moved) > 1e-3


def test_a_delta_counts_by_the_clients_size_and_the_round(played):
    simulation, state = played
    ids = np.arange(4)
    sent = {}
    for name, given in {'plain': {}, 'both': {'delta_weighting': 'size', 'server_decay': 8.0}}.items():
        settings = make_settings(damping=0.7, init_scale=0.3, client_lr=0.05, min_precision=0.1, **given)
        changed = make_simulation(settings, simulation.dataset)
        sent[name] = changed.algorithm.client_update(
            state.server, state.clients.read(ids), simulation.dataset.cohort(ids, 5, settings))[1]
    # Round 5 is four after the first: 1/(1 + 4/8). Sizes 9, 5, 7, 12 have the mean 33/4.
    exponents = np.array(SIZES) / (33 / 4) * 8 / 12
    for name, plain in sent['plain'].items():
        for a, b in zip(sent['both'][name], plain):
            np.testing.assert_allclose(a, exponents[:, None, None] * b, rtol=1e-4, atol=1e-4)


def test_private_weights_after_theta_leave_the_server_where_none_has_it():
    dataset = make_dataset(SIZES)
    servers, scores = {}, {}
    for private in ('none', 'after'):
        _, state, history = toys.play(make_settings(private=private, rounds=3, init_scale=0.2), dataset)
        servers[private], scores[private] = state.server, history[-1]['mt/cross_entropy']
    assert_nests_close(servers['none'], servers['after'], rtol=1e-4, atol=1e-4)
    assert scores['none'] != scores['after']


def test_a_strong_prior_shuts_the_gates_and_then_private_weights_change_nothing():
    dataset = make_dataset(SIZES)
    settings = make_settings(private='after', gate_prior=1e6, init_scale=0.2, clients_per_round=4, rounds=2)
    _, state, shut = toys.play(settings, dataset)
    _, _, none = toys.play(settings.replace(private='none'), dataset)
    assert all(np.all(gate == 0.0) for gate in tf.nest.flatten(state.clients.read(range(4)).private.gates))
    np.testing.assert_allclose(shut[-1]['mt/cross_entropy'], none[-1]['mt/cross_entropy'], rtol=1e-4)
