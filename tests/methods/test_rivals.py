"""What a method becomes at its limits, and single steps that can be worked out by hand."""
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from toys import assert_nests_close, full_batch, make_dataset, make_network, make_settings, play

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.random_streams import make_keys
from virtual_tf.methods import registry
from virtual_tf.methods.interface import WeighedDelta
from virtual_tf.methods.pfedbayes import follow
from virtual_tf.methods.virtual.gaussian import Moments
from virtual_tf.networks import gated

ALL = (0, 1, 2, 3)


def rival(method, **changes):
    return make_settings(**({'method': method, 'server_lr': 1.0, 'client_lr': 0.1, 'mean_init': 'glorot',
                             'clients_per_round': 3} | changes))


def played(method, **changes):
    """(server's state, states of all clients, metrics by round)"""
    _, state, history = play(rival(method, **changes), make_dataset())
    return state.server, state.clients.read(list(ALL)), history


def visit(method, steps=1, network=None, **changes):
    """(network, algorithm, server, clients, cohort, what client_update gives) of two clients with the same batch in
    every step."""
    generator = np.random.default_rng(0)
    cohort = full_batch(generator.normal(size=(2, 6, 3)).astype(np.float32),
                        generator.integers(0, 2, (2, 6)).astype(np.int32), np.full(2, 0.5, np.float32),
                        make_keys(0, ids=range(2)), steps)
    network, settings = network or make_network(), rival(method, **changes)
    algorithm = registry.find(method).make(network, settings)
    server = algorithm.init(0)
    clients = algorithm.init_clients(server, cohort.weight, cohort.keys)
    return network, algorithm, server, clients, cohort, algorithm.client_update(server, clients, cohort)


def gradient(network, weights, cohort):
    """Of each client's mean cross-entropy at plain weights {name: [C, …]}."""
    with tf.GradientTape() as tape:
        tape.watch(weights)
        logits = gated.logits(network, gated.without_private(weights), cohort.x)
        loss = tf.reduce_sum(tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(cohort.y, logits), axis=1))
    return tape.gradient(loss, weights)


def stacked_moments(server, clients=2):
    return {name: Moments(*(tf.stack([part] * clients) for part in value)) for name, value in server.items()}


def stacked(server, clients=2):
    return {name: tf.stack([value] * clients) for name, value in server.items()}


# --- local, ditto ------------------------------------------------------------------------------------------------

def test_local_sends_nothing_and_its_server_stays_where_it_was():
    server, _, history = played('local')
    assert server == {} and all(row['bytes_up'] == row['bytes_down'] == row['parameters_up'] == 0 for row in history)
    assert len({row['server/cross_entropy'] for row in history}) == 1
    assert len({row['mt/cross_entropy'] for row in history}) == len(history), 'while the clients learn'


def test_ditto_that_nothing_holds_is_local_beside_fedavg():
    (server, personal, _), (of_fedavg, _, _), (_, alone, _) = (
        played('ditto', personal_l2=0.0), played('fedavg'), played('local'))
    assert_nests_close(server, of_fedavg, rtol=1e-6)
    assert_nests_close(personal, alone, rtol=1e-6)


def test_dittos_second_step_is_pulled_back_to_what_was_received():
    network, _, server, _, cohort, (personal, _, _) = visit('ditto', steps=2, personal_l2=0.7)
    start = stacked(server)
    first = gradient(network, start, cohort)
    middle = {name: value - 0.1 * first[name] for name, value in start.items()}
    second = gradient(network, middle, cohort)
    expected = {name: value - 0.1 * (second[name] + 0.7 * (value - start[name])) for name, value in middle.items()}
    assert_nests_close(personal, expected, rtol=1e-5, atol=1e-7)


# --- fedper, fedrep ----------------------------------------------------------------------------------------------

def test_fedper_without_a_head_is_fedavg():
    (server, clients, rows), (of_fedavg, of_clients, of_rows) = played('fedper', head_layers=0), played('fedavg')
    assert_nests_close(server, of_fedavg, rtol=1e-6)
    assert_nests_close(clients, of_clients.deployed, rtol=1e-6)
    assert [row['bytes_up'] for row in rows] == [row['bytes_up'] for row in of_rows]
    np.testing.assert_allclose(rows[-1]['server/cross_entropy'], of_rows[-1]['server/cross_entropy'], rtol=1e-6)


@pytest.mark.parametrize('method', ['fedper', 'fedrep'])
def test_the_head_stays_with_the_client_and_s_is_not_defined(method):
    server, clients, rows = played(method)
    assert {*server} == {'dense_1/kernel'} and {*clients} == {'dense_1/kernel', 'dense_2/kernel'}
    heads = clients['dense_2/kernel']
    assert not np.allclose(heads[0], heads[1])
    assert np.isnan(rows[-1]['server/accuracy']) and np.isfinite(rows[-1]['mt/accuracy'])
    assert rows[-1]['bytes_up'] < played('fedavg')[2][-1]['bytes_up']


def test_fedreps_base_stands_still_while_the_head_trains_and_the_head_while_the_base_does():
    network, _, _, clients, cohort, (found, _, _) = visit('fedrep', steps=3, epochs=3, base_epochs=1)
    weights = dict(clients)
    for names in (['dense_2/kernel'], ['dense_2/kernel'], ['dense_1/kernel']):
        slope = gradient(network, weights, cohort)
        weights = {name: value - 0.1 * slope[name] if name in names else value for name, value in weights.items()}
    assert_nests_close(found, weights, rtol=1e-5, atol=1e-7)


def test_what_leaves_nothing_to_do_is_told():
    with pytest.raises(VirtualTfError, match='base_epochs = 2 of epochs = 2 leaves none for the head'):
        rival('fedrep', base_epochs=2)
    with pytest.raises(VirtualTfError, match='head_layers = 2 leaves nothing to share of a network with 2 layers'):
        registry.find('fedper').make(make_network(), rival('fedper', head_layers=2))


# --- pfedme ------------------------------------------------------------------------------------------------------

def test_pfedmes_first_step_starts_from_what_was_received():
    """θ = w there, so that only the loss pulls: θ₁ = w − η_c/(1 + η_c λ)·∇F(w), and w_i follows by ηλ of the way."""
    rate, attraction, follow = 0.1, 15.0, 0.02
    network, _, server, _, cohort, (personal, deltas, _) = visit(
        'pfedme', envelope_l2=attraction, envelope_lr=follow, personal_steps=1)
    start = stacked(server)
    slope = gradient(network, start, cohort)
    step = {name: -rate / (1.0 + rate * attraction) * value for name, value in slope.items()}
    assert_nests_close(personal, {name: start[name] + step[name] for name in step}, rtol=1e-5, atol=1e-7)
    assert_nests_close(deltas.weighted, {name: 6 * follow * attraction * value for name, value in step.items()},
                       rtol=1e-3, atol=1e-6)


def test_pfedmes_many_steps_find_the_minimum_of_the_envelope():
    """There ∇F(θ) = λ(w − θ), so that w_i − w = −η∇F(θ)."""
    network, _, _, _, cohort, (personal, deltas, _) = visit(
        'pfedme', envelope_l2=5.0, envelope_lr=0.02, personal_steps=200)
    slope = gradient(network, personal, cohort)
    assert_nests_close({name: value / 6 for name, value in deltas.weighted.items()},
                       {name: -0.02 * value for name, value in slope.items()}, rtol=1e-3, atol=1e-6)


# --- pfedbayes ---------------------------------------------------------------------------------------------------

def test_pfedbayes_without_zeta_learns_from_the_likelihood_alone_whatever_the_server_sends():
    network, algorithm, server, clients, cohort, (own, _, _) = visit('pfedbayes', steps=3, zeta=0.0)
    other = {name: value._replace(mean=value.mean + 1.0, scale=2.0 * value.scale) for name, value in server.items()}
    again, _, _ = algorithm.client_update(other, clients, cohort)
    assert_nests_close(own, again, rtol=1e-6)
    held = registry.find('pfedbayes').make(network, rival('pfedbayes', zeta=10.0)).client_update(other, clients, cohort)
    assert any(np.max(np.abs(own[name].mean - held[0][name].mean)) > 1e-4 for name in own)


def test_pfedbayes_copy_goes_down_the_gradient_of_the_kl():
    """∂KL(q ‖ N(μ, σ²)) by autodiff of TFP's, for a rate at which the implicit step is the explicit one."""
    generator, tfd = np.random.default_rng(1), tfp.distributions
    own, copy = ([generator.normal(size=5), generator.uniform(0.5, 2.0, 5)] for _ in range(2))
    own, copy = (Moments(*map(tf.constant, pair)) for pair in (own, copy))
    with tf.GradientTape() as tape:
        tape.watch(copy)
        kl = tf.reduce_sum(tfd.kl_divergence(tfd.Normal(*own), tfd.Normal(*copy)))
    slope, rate = tape.gradient(kl, copy), 1e-6
    for moved, value, by in zip(follow(own, copy, rate), copy, slope):
        np.testing.assert_allclose((value - moved) / rate, by, rtol=1e-4)
    newton = follow(own, copy, 1e9)
    np.testing.assert_allclose(newton.mean, own.mean, rtol=1e-6)
    assert_nests_close(follow(own, own, 0.3), own, rtol=1e-12)


def test_pfedbayes_guard_holds_a_client_to_the_copy_that_follows_it():
    """A copy that follows at once is never far, so the KL term of what was found is 0 however strong ζ is, and what the
    loss gains is kept. Held against what was received, ζ/N·KL = 10/6·(Δμ/σ)²/2 a weight outweighs a gain of |g|·Δμ
    as soon as Δμ > 12/10·|g|·σ², which is 5·10⁻⁴·|g|; that a client goes further is checked."""
    network, _, server, _, cohort, (own, _, training) = visit('pfedbayes', steps=20, zeta=10.0, global_lr=1e9,
                                                    backtracking=True)
    assert np.array_equal(training.details['shortened_updates'], [0, 0])
    slope = gradient(network, {name: value.mean for name, value in stacked_moments(server).items()}, cohort)
    for name, value in own.items():
        moved = np.abs(value.mean - server[name].mean)
        assert np.max(moved - 12 / 10 * np.abs(slope[name]) * 0.02 ** 2) > 0.0, name


# --- barycentre, fedivon -----------------------------------------------------------------------------------------

def merged(method, moments, sizes, **changes):
    """The server after clients with these (μ, σ) and sizes, from a server at N(0.3, 0.5²)."""
    network = make_network(hidden=(), features=1, classes=1)
    algorithm = registry.find(method).make(network, rival(method, **changes))
    encode = (lambda mu, sigma: (mu / sigma ** 2, sigma ** -2)) if changes.get(
        'divergence', 'reverse_kl') == 'reverse_kl' else lambda mu, sigma: (mu, sigma)
    (name, like), = algorithm.init(0).items()
    old, parts = np.array(encode(0.3, 0.5)), np.array([encode(*pair) for pair in moments])
    sizes = np.array(sizes, np.float32)
    total = (sizes[:, None] * (parts - old)).sum(axis=0).astype(np.float32)
    server = {name: type(like)(*(tf.fill([1, 1], np.float32(value)) for value in old))}
    delta = WeighedDelta({name: type(like)(*(tf.fill([1, 1], value) for value in total))}, tf.constant(sizes.sum()))
    normal, = algorithm.server_model(algorithm.server_update(server, delta)[0]).shared.values()
    return float(normal.loc[0, 0, 0]), float(normal.scale[0, 0, 0])


@pytest.mark.parametrize('given', [
    {'method': 'barycentre'}, {'method': 'barycentre', 'divergence': 'wasserstein'}, {'method': 'fedivon'}], ids=str)
def test_the_barycentre_of_equal_gaussians_is_that_gaussian(given):
    np.testing.assert_allclose(merged(moments=[(0.7, 0.2)] * 3, sizes=(3, 5, 2), **given), (0.7, 0.2), rtol=1e-5)


@pytest.mark.parametrize('method, given', [('barycentre', {}), ('fedivon', {})])
def test_the_barycentre_of_two_under_the_reverse_kl(method, given):
    # p = (3/4, 1/4): ξ = 3/4·25 + 1/4·4 = 19.75, and μ = (3/4·25·0.8 − 1/4·4·0.4)/19.75.
    mu, sigma = merged(method, [(0.8, 0.2), (-0.4, 0.5)], (3, 1), **given)
    np.testing.assert_allclose((mu, sigma), ((15.0 - 0.4) / 19.75, 19.75 ** -0.5), rtol=1e-5)


def test_the_barycentre_of_two_under_wasserstein():
    found = merged('barycentre', [(0.8, 0.2), (-0.4, 0.5)], (3, 1), divergence='wasserstein')
    np.testing.assert_allclose(found, (0.75 * 0.8 - 0.25 * 0.4, 0.75 * 0.2 + 0.25 * 0.5), rtol=1e-5)


@pytest.mark.parametrize('divergence', ['reverse_kl', 'wasserstein'])
@pytest.mark.parametrize('own_weight', [0.0, 1.5])
def test_a_client_of_barycentre_deploys_the_barycentre_of_received_and_found(divergence, own_weight):
    _, _, server, _, _, (deployed, deltas, _) = visit('barycentre', divergence=divergence, own_weight=own_weight)
    for name, value in server.items():
        sent = [value[i] + deltas.weighted[name][i] / 6 for i in range(2)]     # what was found, in straight coordinates
        mixed = [(old + own_weight * new) / (1.0 + own_weight) for old, new in zip(value, sent)]
        mean, scale = (mixed[0] / mixed[1], mixed[1] ** -0.5) if divergence == 'reverse_kl' else mixed
        np.testing.assert_allclose(deployed[name].mean, mean, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(deployed[name].scale, scale, rtol=1e-4)


def test_fedivon_deploys_what_it_found_and_trains_its_precisions():
    _, _, server, _, _, (deployed, deltas, _) = visit('fedivon', steps=4)
    for name, value in server.items():
        found = [value[i] + deltas.weighted[name][i] / 6 for i in range(2)]
        np.testing.assert_allclose(deployed[name].mean, found[0] / found[1], rtol=1e-4, atol=1e-6)
        assert np.max(np.abs(found[1] / value.xi - 1.0)) > 1e-3


def test_a_step_beyond_the_mean_of_precisions_is_refused():
    with pytest.raises(VirtualTfError, match=r'server_lr = 1\.5 goes beyond the mean'):
        registry.find('fedivon').make(make_network(), rival('fedivon', server_lr=1.5))
