import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import assert_posterior_is_product, make_dataset, make_network, make_settings, make_simulation, play

from virtual_tf.core import encoding
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.methods import rounding
from virtual_tf.methods.virtual import pruning
from virtual_tf.methods.virtual.gaussian import NaturalGaussian
from virtual_tf.methods.virtual.method import first_belief, virtual

NAMES = ('dense_1/kernel', 'dense_1/bias', 'dense_2/kernel', 'dense_10/kernel')
both_compilers = pytest.mark.parametrize('jit', [True, False], ids=['xla', 'graph'])


def random_deltas(shapes, clients=3, seed=0, scale=1.0):
    generator = np.random.default_rng(seed)
    return {name: NaturalGaussian(*(tf.constant(scale * generator.normal(size=(clients, *shape)), tf.float32)
                                    for _ in range(2))) for name, shape in shapes.items()}


def compiled(function, jit):
    return tf.function(function, jit_compile=jit, autograph=False)


@both_compilers
@pytest.mark.parametrize('count', [1, 2, 17, 49, 50])
def test_highest_are_those_that_sorting_finds(count, jit):
    values = np.random.default_rng(count).exponential(size=(4, 50)).astype(np.float32)
    mask = compiled(lambda v: pruning.highest(v, count), jit)(tf.constant(values)).numpy()
    for row, kept in zip(values, mask):
        assert set(np.flatnonzero(kept)) == set(np.argsort(-row, kind='stable')[:count])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1e-38, 0.5, 1.0, 3e38, float('inf')]), min_size=1, max_size=20), st.data())
def test_highest_keeps_exactly_the_count_also_among_equals_the_first_ones(row, data):
    count = data.draw(st.integers(1, len(row)))
    kept = pruning.highest(tf.constant([row], tf.float32), count).numpy()[0]
    assert np.array_equal(np.flatnonzero(kept), np.sort(np.argsort(-np.float32(row), kind='stable')[:count]))


def test_scores_by_hand():
    deltas = {'w': NaturalGaussian(tf.constant([[6.0, -6.0, 1.0, 0.0]]), tf.constant([[4.0, -9.0, 0.0, 0.0]]))}
    factors = {'w': NaturalGaussian(tf.zeros([1, 4]), tf.constant([[32.0, 5.0, -4.0, 0.0]]))}
    update, authors = (pruning.scores(deltas, factors, kind)['w'].numpy()[0] for kind in ('update', 'authors'))
    # 6/√4, 6/√9; a change of the mean at no change of precision is beyond all others; nothing is nothing.
    assert np.allclose(update[:2], [3.0, 2.0]) and update[2] > 1e10 and update[3] == 0.0
    # 6/√36, 6/√|−4|, 1/√|−4|
    assert np.allclose(authors, [1.0, 3.0, 0.5, 0.0])


def test_groups_are_layers_in_order_or_the_network_with_or_without_the_output():
    assert pruning.prune_groups(NAMES, 'layer', True) == [list(NAMES[:2]), [NAMES[2]], [NAMES[3]]]
    assert pruning.prune_groups(NAMES, 'layer', False) == [list(NAMES[:2]), [NAMES[2]]]
    assert pruning.prune_groups(NAMES, 'network', True) == [list(NAMES)]
    assert pruning.prune_groups(NAMES, 'network', False) == [list(NAMES[:3])]
    assert pruning.prune_groups(NAMES[:1], 'network', False) == [], 'a network of one layer has only its output'


@both_compilers
@pytest.mark.parametrize('percent', [1, 50, 75, 90, 99])
@pytest.mark.parametrize('scope, output', [('layer', True), ('layer', False), ('network', True)])
def test_pruning_leaves_the_highest_scores_of_each_client_and_group_untouched_and_zeroes_the_rest(
        percent, scope, output, jit):
    deltas = random_deltas({'dense_1/kernel': (8, 5), 'dense_1/bias': (5,), 'dense_2/kernel': (5, 3)})
    scores = pruning.scores(deltas, deltas, 'update')
    groups = pruning.prune_groups(deltas, scope, output)
    pruned = compiled(lambda d, s: pruning.prune(d, s, percent, groups), jit)(deltas, scores)
    for client in range(3):
        for names in groups:
            score, before, after = (np.concatenate([np.reshape(of(name)[client], [-1]) for name in names]) for of in (
                scores.get, lambda name: deltas[name].chi, lambda name: pruned[name].chi))
            kept = np.argsort(-score)[:len(score) - len(score) * percent // 100]
            expected = np.zeros_like(before)
            expected[kept] = before[kept]
            assert np.array_equal(after, expected)
    for name, (chi, xi) in pruned.items():
        assert np.array_equal(chi == 0, xi == 0), 'χ and ξ of a weight go together'
        if not output and name == 'dense_2/kernel':
            assert np.array_equal(chi, deltas[name].chi) and np.array_equal(xi, deltas[name].xi)


@both_compilers
@pytest.mark.parametrize('scale', [1e-12, 1.0, 1e5, 1e30])
def test_rounding_gives_what_the_encoding_delivers_and_rounding_again_changes_nothing(scale, jit):
    chi, xi = random_deltas({'w': (30, 20)}, scale=scale)['w']
    # A row far below the largest falls among float16's subnormal numbers.
    deltas = {'w': NaturalGaussian(tf.concat([chi[:, :-1], 1e-7 * chi[:, -1:]], axis=1), xi)}
    rounded = compiled(lambda d: rounding.round_values(d, 'float16'), jit)(deltas)
    again = rounding.round_values(rounded, 'float16')
    for client in range(3):
        one, expected = ({'w': NaturalGaussian(*(part[client].numpy() for part in nest['w']))}
                         for nest in (deltas, rounded))
        received = encoding.decode(encoding.encode(one, 'float16'), one)
        lossless = encoding.decode(encoding.encode(expected, 'float16'), one)
        for part, delivered, kept, twice in zip(expected['w'], received['w'], lossless['w'], again['w']):
            for other in (delivered, kept, twice[client]):
                assert np.array_equal(part, other)
    assert np.any(rounded['w'].chi != deltas['w'].chi)
    assert rounding.round_values(deltas, 'float32') is deltas


def test_rounding_near_the_next_power_of_two_is_stable():
    # 4095.5 has 12 bits and rounds up to 2^12: the exponent is chosen for the rounded number.
    value = tf.constant([[4095.5, 2.0 ** -13 + 2.0 ** -23, 3.0 * 2.0 ** -14]])
    once = rounding.round_values(value, 'float16')
    assert once.numpy()[0, 0] == 4096.0
    assert np.array_equal(once, rounding.round_values(once, 'float16'))


@pytest.mark.parametrize('values', ['float32', 'float16'])
def test_what_is_sent_and_what_is_carried_is_the_unpruned_sum(values):
    shapes = {'dense_1/kernel': (8, 5), 'dense_2/kernel': (5, 3)}
    deltas, factors, carried = (random_deltas(shapes, seed=seed) for seed in range(3))
    compress = pruning.compressor(shapes, make_settings(prune=75, error_feedback=True, values=values))
    sent, residual = compress(deltas, factors, carried)
    for name in shapes:
        for parts in zip(deltas[name], carried[name], sent[name], residual[name]):
            delta, before, travels, after = (part.numpy() for part in parts)
            # Elements are pruned whole; float16's rounding error is a float32 number, so the sum is exact either way.
            assert np.array_equal(travels + after, delta + before)
            assert np.mean(travels == 0) >= 0.7


def test_over_many_visits_all_that_was_sent_and_the_last_residual_add_up_to_all_deltas():
    """Σ sent_t = Σ delta_t − residual_T: each residual enters the next sum and leaves it again (telescoping)."""
    shapes = {'dense_1/kernel': (8, 5), 'dense_2/kernel': (5, 3)}
    compress = pruning.compressor(shapes, make_settings(prune=90, error_feedback=True, values='float16'))
    factors = random_deltas(shapes)
    residual = tf.nest.map_structure(tf.zeros_like, factors)
    wanted, sent = [], []
    for visit in range(20):
        wanted.append(random_deltas(shapes, seed=visit))
        travels, residual = compress(wanted[-1], factors, residual)
        sent.append(travels)
    for name in shapes:
        for part in range(2):
            total, applied = (np.sum([np.float64(nest[name][part]) for nest in nests], axis=0)
                              for nests in (wanted, sent))
            np.testing.assert_allclose(applied + residual[name][part], total, atol=1e-4)


def test_without_anything_to_do_deltas_pass_untouched():
    deltas = random_deltas({'dense_1/kernel': (8, 5)})
    sent, residual = pruning.compressor(deltas, make_settings())(deltas, deltas, {})
    assert sent is deltas and residual == {}


def test_prune_0_is_bit_equal_to_no_pruning_whatever_the_other_options():
    dataset = make_dataset()
    runs = [play(make_settings(rounds=4, prune=0, **options), dataset)[1] for options in (
        {}, {'prune_score': 'authors', 'prune_scope': 'network', 'prune_output': False}, {'error_feedback': True})]
    for run in runs[1:]:
        for first, second in zip(tf.nest.flatten(runs[0].server), tf.nest.flatten(run.server)):
            assert np.array_equal(first, second)
        for part in ('factor', 'private', 'deployed'):
            for first, second in zip(*(tf.nest.flatten(getattr(state.clients.read(range(4)), part))
                                       for state in (runs[0], run))):
                assert np.array_equal(first, second)


# A share of 0.2 of a precision in a round is little enough for many precisions to be shrunk.
@pytest.mark.parametrize('options', [
    {}, {'error_feedback': True}, {'values': 'float16'}, {'error_feedback': True, 'values': 'float16'},
    {'prune_score': 'authors', 'prune_scope': 'network', 'prune_output': False}, {'client_start': 'fedavg_init'}],
    ids=lambda options: '-'.join(map(str, options)) or 'plain')
def test_posterior_is_the_product_of_factors_after_many_pruned_damped_shrunk_rounds(options):
    dataset = make_dataset()
    settings = make_settings(rounds=25, prune=60, damping=0.7, server_lr=0.9, client_lr=0.3, max_precision_drop=0.05,
                             kl_weight=1.0, **options)
    _, state, history = play(settings, dataset)
    assert sum(row['shrunk_precisions'] for row in history) > 0
    assert_posterior_is_product(state, 4)


def test_only_what_was_applied_goes_into_the_factor_and_the_rest_is_carried():
    dataset = make_dataset()
    settings = make_settings(prune=60, error_feedback=True, damping=0.7, server_lr=0.5, max_precision_drop=1.0,
                             min_precision=1e-3)
    simulation = make_simulation(settings, dataset)
    state = simulation.start()
    ids = np.array([0, 2])
    clients = state.clients.read(ids)
    cohort = dataset.cohort(ids, 1, settings)
    proposals, sent, training = simulation.algorithm.client_update(state.server, clients, cohort)
    delta = simulation.algorithm.aggregate(sent, training.accepted)
    _, shrink = simulation.algorithm.server_update(state.server, delta)
    after = simulation.algorithm.commit(clients, proposals, sent, shrink, training.accepted)
    for name, delta in sent.items():
        for part in range(2):
            assert np.all(shrink[name] == 1.0)
            np.testing.assert_allclose(after.factor[name][part], clients.factor[name][part] + 0.5 * delta[part],
                                       rtol=1e-6, atol=1e-5)
            assert np.array_equal(after.carried[name][part], proposals.residual[name][part])
            assert np.all((delta[part] == 0) | (after.carried[name][part] == 0))
    # A client that is dropped keeps what it had carried before.
    kept = simulation.algorithm.commit(clients, proposals, sent, shrink, tf.constant([True, False]))
    assert np.array_equal(kept.carried['dense_1/kernel'].chi[1], clients.carried['dense_1/kernel'].chi[1])


def test_the_authors_bookkeeping_keeps_the_unpruned_proposal():
    dataset = make_dataset()
    states = []
    for prune in (0, 60):
        settings = make_settings(prune=prune, factor_bookkeeping='authors', rounds=1)
        states.append(play(settings, dataset)[1])
    for first, second in zip(*(tf.nest.flatten(state.clients.read(range(4)).factor) for state in states)):
        np.testing.assert_allclose(first, second, rtol=1e-6)
    assert any(np.any(first != second) for first, second in zip(*(tf.nest.flatten(s.server) for s in states)))


def test_fedavg_init_starts_at_the_cavity_times_the_posterior_to_the_weight():
    settings = make_settings(client_start='fedavg_init')
    posterior = {'w': NaturalGaussian(tf.constant([1.0, 2.0, 3.0]), tf.constant([10.0, 20.0, 30.0]))}
    weight = tf.constant([0.25, 0.5])
    initial = {'w': NaturalGaussian(*(weight[:, tf.newaxis] * value for value in posterior['w']))}

    def start(factor):
        cavities = {'w': NaturalGaussian(*(s - s_i for s, s_i in zip(posterior['w'], factor['w'])))}
        beliefs, improper = first_belief(settings, posterior, cavities, weight)
        return beliefs['w'], improper.numpy().tolist()

    # factor = posterior^w, as in the first round: the posterior itself.
    for value, expected in zip(start(initial)[0], posterior['w']):
        np.testing.assert_allclose(value, [expected, expected], rtol=1e-6)
    factor = {'w': NaturalGaussian(tf.constant([[0.5, 1.0, 4.0]] * 2), tf.constant([[4.0, 40.0, -10.0]] * 2))}
    belief, improper = start(factor)
    assert improper == [1, 1]
    # Client 1: ξ = 1.5·(10, 20, 30) − (4, 40, −10) = (11, −10, 55); the improper one starts from the posterior.
    np.testing.assert_allclose(belief.xi[1], [11.0, 20.0, 55.0])
    # χ = 1.5·(1, 2, 3) − (0.5, 1, 4) = (1, 2, 0.5)
    np.testing.assert_allclose(belief.chi[1], [1.0, 2.0, 0.5])


def test_fedavg_init_changes_nothing_in_the_first_round_and_something_later():
    dataset = make_dataset()
    first, second = ([play(make_settings(rounds=rounds, client_start=start), dataset)[1].server
                      for start in ('posterior', 'fedavg_init')] for rounds in (1, 4))
    for one, other in zip(*map(tf.nest.flatten, first)):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)
    assert any(np.abs(one - other).max() > 1e-2 for one, other in zip(*map(tf.nest.flatten, second)))


def test_fedavg_applies_the_rounded_delta():
    dataset = make_dataset()
    exact, rounded = (play(make_settings(method='fedavg', server_lr=1.0, rounds=1, values=values), dataset)
                      for values in ('float32', 'float16'))
    for name, value in exact[1].server.items():
        np.testing.assert_allclose(value, rounded[1].server[name], atol=2e-3)
        assert np.any(value != rounded[1].server[name])
    assert rounded[2][0]['bytes_up'] < exact[2][0]['bytes_up']


def test_metrics_count_the_bytes_of_real_messages():
    dataset = make_dataset(sizes=(9, 5, 7, 12), features=40)
    dense, pruned = (play(make_settings(rounds=1, prune=prune), dataset, hidden=(50,))[2][0] for prune in (0, 75))
    assert dense['bytes_down'] == pruned['bytes_down'] > 2 * 4 * 2 * (40 * 50 + 50 * 2)
    assert pruned['bytes_up'] < 0.3 * dense['bytes_up'] and dense['bytes_up'] <= dense['bytes_down']
    # (40·50 − 1500) + (50·2 − 75) weights, χ and ξ, two clients
    assert pruned['parameters_up'] == 2 * 2 * (500 + 25)


@pytest.mark.parametrize('values, reason', [
    ({'prune': 100}, 'at most 99'), ({'prune': -1}, 'at least 0'), ({'prune_score': 'snr'}, 'authors, update'),
    ({'values': 'int8'}, 'float32, float16'), ({'client_start': 'prior'}, 'posterior, fedavg_init'),
    ({'error_feedback': True, 'factor_bookkeeping': 'authors'}, 'factor_bookkeeping=exact')])
def test_settings_are_checked(values, reason):
    with pytest.raises(VirtualTfError, match=reason):
        make_settings(**values)


@both_compilers
def test_a_pruned_round_compiles_both_ways_to_the_same_numbers(jit):
    network = make_network(hidden=(6,))
    settings = make_settings(prune=50, compile='xla' if jit else 'graph', values='float16')
    dataset = make_dataset()
    simulation = virtual(network, settings)
    server = simulation.init(0)
    clients = simulation.init_clients(server, np.full(2, 0.25, np.float32), np.zeros([2, 2], np.uint32))
    _, sent, training = simulation.client_update(server, clients, dataset.cohort(np.array([0, 1]), 1, settings))
    assert training.accepted.numpy().all()
    for (chi, xi), kept in zip(sent.values(), (3 * 6 - 9, 6 * 2 - 6)):
        assert np.all(np.sum((chi != 0) | (xi != 0), axis=(1, 2)) <= kept)
