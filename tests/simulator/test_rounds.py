import logging

import numpy as np
import pytest
import tensorflow as tf
import toys
from toys import assert_nests_close, make_dataset, make_settings, make_simulation, play

from virtual_tf.data import watch
from virtual_tf.data.federated import Split
from virtual_tf.runs.summary import summarise
from virtual_tf.simulator import rounds

SIZES = (9, 5, 7, 12)


def without_times(history):
    return [{key: value for key, value in row.items() if not key.startswith('seconds')} for row in history]


@pytest.fixture(scope='module')
def played():
    """Two of four clients, three rounds, with private weights and a validation split."""
    return play(make_settings(private='residual'), make_dataset(SIZES, validation=0.2))


def test_selection_is_without_replacement_fair_and_by_seed_and_round():
    draws = np.array([rounds.select(10, 4, 0, number) for number in range(1, 1001)])
    assert np.all(np.diff(draws, axis=1) > 0), 'ascending, so all different'
    counts = np.bincount(draws.ravel(), minlength=10)
    # Binomial(1000, 0.4) has standard deviation √240 ≈ 15.5; ten clients stay within 4 of them.
    assert np.all(np.abs(counts - 400) < 4 * np.sqrt(240))
    assert np.array_equal(rounds.select(10, 4, 0, 7), draws[6])
    assert any(not np.array_equal(rounds.select(10, 4, 1, number), draws[number - 1]) for number in range(1, 5))


def test_a_client_update_is_traced_once_over_many_rounds():
    simulation, _, history = play(make_settings(rounds=5), make_dataset(SIZES))
    cohorts = {tuple(simulation.cohort_ids(number)) for number in range(1, 6)}
    assert len(history) == 5 and len(cohorts) > 1
    assert simulation.algorithm.client_update.experimental_get_tracing_count() == 1


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(played):
    _, state, history = played
    settings, dataset = make_settings(private='residual'), make_dataset(SIZES, validation=0.2)
    _, again_state, again = play(settings, dataset)
    assert without_times(history) == without_times(again)
    for first, second in zip(*map(tf.nest.flatten, (state.server, again_state.server))):
        assert np.array_equal(first, second)
    _, _, other = play(make_settings(private='residual', seed=1), dataset)
    for row, other_row in zip(history, other):
        assert row['server/cross_entropy'] != other_row['server/cross_entropy']


@pytest.mark.parametrize('method', ['virtual', 'fedavg'])
def test_graph_and_xla_give_the_same_run(method):
    dataset = make_dataset(SIZES)
    runs = [play(make_settings(method=method, compile=name, rounds=2, init_scale=0.2), dataset)
            for name in ('graph', 'xla')]
    assert_nests_close(runs[0][1].server, runs[1][1].server, rtol=1e-3, atol=1e-3)
    for first, second in zip(runs[0][2], runs[1][2]):
        np.testing.assert_allclose(first['train/loss'], second['train/loss'], rtol=1e-4)


def test_posterior_is_the_product_of_factors_on_watch_with_shrunk_precisions():
    # A floor just below the initial precision 400 makes every loss of precision a case for shrinking.
    settings = make_settings(rounds=4, clients_per_round=8, epochs=1, batch_size=20, damping=0.6, server_lr=0.7,
                             init_scale=0.05, min_precision=399.99, kl_weight=1e-5)
    dataset = watch.load(None, settings)
    _, state, history = play(settings, dataset, hidden=(8,))
    assert all(row['shrunk_precisions'] > 0 for row in history)
    assert all(np.all(value.xi >= 399.98) for value in state.server.values())
    toys.assert_posterior_is_product(state, 20)


def with_bad_client(dataset, client):
    x = dataset.train.x.copy()
    x[dataset.train.offsets[client]] = np.nan
    return Split(x, dataset.train.y, dataset.train.offsets)


@pytest.mark.parametrize('method', ['virtual', 'fedavg'])
def test_a_client_that_gets_nan_is_dropped_named_and_the_run_goes_on(method, caplog):
    dataset = make_dataset(SIZES)
    object.__setattr__(dataset, 'train', with_bad_client(dataset, 1))
    settings = make_settings(method=method, clients_per_round=4, damping=0.7, init_scale=0.2)
    with caplog.at_level(logging.WARNING, logger='absl'):
        simulation, state, history = play(settings, dataset)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == settings.rounds and all("'client b'" in text for text in warnings)
    assert [row['dropped_clients'] for row in history] == [1, 1, 1]
    assert all(np.isfinite(value) for row in history for value in row.values())
    assert [i for i in range(4) if i in state.clients] == [0, 2, 3]
    start = simulation.start()
    bad, fresh = state.clients.read([1]), start.clients.read([1])
    if method == 'virtual':
        assert all(np.array_equal(a, b) for a, b in zip(*map(tf.nest.flatten, (bad.factor, fresh.factor))))
    # Roots are rounded by the vector unit or by the scalar one, by position: an ulp between cohorts.
    assert_nests_close(bad, fresh, rtol=1e-6)
    before, after = (one.scores['mt'].sums['loss'] for one in (start, state))
    assert after[1] == before[1] and after[0] != before[0]
    assert any(np.any(a != b) for a, b in zip(*map(tf.nest.flatten, (state.server, start.server))))
    if method == 'virtual':
        toys.assert_posterior_is_product(state, 4)


def test_the_other_clients_of_a_dropped_one_train_as_without_it():
    settings, dataset = make_settings(clients_per_round=4, rounds=1), make_dataset(SIZES)
    _, good, _ = play(settings, dataset)
    object.__setattr__(dataset, 'train', with_bad_client(dataset, 1))
    _, bad, _ = play(settings, dataset)
    for i in (0, 2, 3):
        for a, b in zip(*(tf.nest.flatten(state.clients.read([i]).deployed) for state in (good, bad))):
            assert np.array_equal(a, b)


def test_a_round_in_which_all_are_dropped_changes_nothing():
    simulation, state, history = play(make_settings(method='fedavg', client_lr=1e38, rounds=2), make_dataset(SIZES))
    start = simulation.start()
    assert_nests_close(state.server, start.server, rtol=0)
    assert [row['dropped_clients'] for row in history] == [2, 2]
    assert all(np.isnan(row['train/loss']) for row in history)
    for row in history:
        assert row['mt/cross_entropy'] == pytest.approx(start.scores['mt'].summary()['cross_entropy'])


def test_mt_of_clients_that_were_never_selected_is_the_initial_servers():
    settings, dataset = make_settings(rounds=2, private='joint'), make_dataset((9, 5, 7, 12, 8, 6))
    simulation, state, _ = play(settings, dataset)
    visited = {i for number in (1, 2) for i in simulation.cohort_ids(number)}
    never = [i for i in range(6) if i not in visited]
    assert never
    initial = simulation._evaluators[''].server(simulation.start().server)['server']
    for stored, first in zip(state.scores['mt'].sums.values(), initial.sums.values()):
        assert np.array_equal(stored[never], first[never])
    assert np.all(state.scores['mt'].sums['loss'][list(visited)] != initial.sums['loss'][list(visited)])


def test_mt_over_the_visited_clients_is_their_mean_by_targets():
    simulation, state, history = play(make_settings(rounds=2), make_dataset((9, 5, 7, 12, 8, 6)))
    visited = sorted({i for number in (1, 2) for i in simulation.cohort_ids(number)})
    assert state.clients.contributors() == visited and len(visited) < 6
    scores = state.scores['mt']
    expected = scores.sums['loss'][visited].sum() / scores.targets[visited].sum()
    assert history[-1]['mt_visited/cross_entropy'] == pytest.approx(expected, rel=1e-6)
    assert history[-1]['mt_visited/cross_entropy'] != history[-1]['mt/cross_entropy']


def test_before_anybody_has_trained_mt_over_the_visited_is_no_number():
    _, _, history = play(make_settings(method='fedavg', client_lr=1e38, rounds=1), make_dataset(SIZES))
    assert np.isnan(history[0]['mt_visited/accuracy']) and np.isfinite(history[0]['mt/accuracy'])


def test_mt_is_what_an_evaluation_of_all_clients_would_give(played):
    simulation, state, history = played
    visited = np.array(sorted({i for number in (1, 2, 3) for i in simulation.cohort_ids(number)}))
    again = simulation._evaluators[''].clients(state.clients.read(visited), visited)['mt']
    np.testing.assert_allclose(state.scores['mt'].sums['loss'][visited], again.sums['loss'], rtol=1e-5)
    assert history[-1]['mt/cross_entropy'] == state.scores['mt'].summary()['cross_entropy']


def test_metrics_of_a_round_have_the_promised_keys(played):
    _, _, history = played
    assert [row['round'] for row in history] == [1, 2, 3]
    promised = {'server/accuracy', 'server/cross_entropy', 'mt/accuracy', 'mt/cross_entropy', 'train/loss',
                'train/accuracy', 'kl/shared', 'kl/private', 'shrunk_precisions', 'dropped_clients', 'bytes_up',
                'bytes_down', 'seconds', 'val_server/accuracy', 'val_mt/cross_entropy'}
    assert all(promised <= set(row) for row in history)


def test_bytes_are_two_floats_a_weight_and_client_each_way(played):
    simulation, _, history = played
    weights = sum(int(np.prod(shape)) for shape in simulation.network.shapes().values())
    # Two of four clients a round: χ and ξ in float32, whatever they keep for themselves; a message has a header. Down
    # goes a second message, r, which has nothing but its header where no precision was shrunk.
    plain = 2 * weights * 2 * 4
    for row in history:
        assert plain <= row['bytes_up'] < plain + 2 * 100
        assert row['shrunk_precisions'] or plain <= row['bytes_down'] < plain + 2 * 200


def test_train_metrics_are_means_over_the_clients_weighted_by_size():
    simulation = make_simulation(make_settings(clients_per_round=4), make_dataset(SIZES))
    state = simulation.start()
    ids = simulation.cohort_ids(1)
    _, _, result = simulation.algorithm.client_update(
        state.server, state.clients.read(ids), simulation.dataset.cohort(ids, 1, simulation.settings))
    metrics = simulation.play_round(state)
    for key, column in (('train/loss', result.loss), ('kl/shared', result.details['kl/shared'])):
        np.testing.assert_allclose(metrics[key], np.dot(column, SIZES) / sum(SIZES), rtol=1e-6)


def row(number, accuracy, loss, val=None):
    metrics = {'round': number, 'seconds': 0.5, 'server/accuracy': accuracy, 'server/cross_entropy': loss,
               'mt/accuracy': accuracy + 0.1, 'mt/cross_entropy': loss / 2}
    if val is not None:
        metrics |= {f'val_{key}': val for key in ('server/accuracy', 'mt/accuracy')}
        metrics |= {f'val_{key}': -val for key in ('server/cross_entropy', 'mt/cross_entropy')}
    return metrics


def test_a_summary_has_the_best_the_last_and_the_mean_of_the_last_five():
    history = [row(i + 1, accuracy, loss) for i, (accuracy, loss) in enumerate(
        zip((0.1, 0.7, 0.3, 0.4, 0.5, 0.6), (2.0, 1.5, 1.0, 0.5, 0.8, 0.9)))]
    summary = summarise(history)
    assert summary['max']['server/accuracy'] == 0.7 and summary['max_round']['server/accuracy'] == 2
    # The best cross-entropy is the smallest.
    assert summary['max']['server/cross_entropy'] == 0.5 and summary['max_round']['server/cross_entropy'] == 4
    assert summary['final']['mt/cross_entropy'] == 0.45
    # (0.7 + 0.3 + 0.4 + 0.5 + 0.6)/5
    assert summary['last_5']['server/accuracy'] == pytest.approx(0.5)
    assert summary['rounds'] == 6 and summary['seconds'] == 3.0 and 'val' not in summary


def test_val_takes_the_test_metrics_of_the_round_that_was_best_on_validation():
    history = [row(1, 0.2, 2.0, val=0.1), row(2, 0.4, 1.0, val=0.9), row(3, 0.6, 0.5, val=0.3)]
    summary = summarise(history)
    assert summary['val']['server/accuracy'] == 0.4 and summary['val_round']['server/accuracy'] == 2
    assert summary['val']['mt/cross_entropy'] == 0.5 and summary['val_round']['mt/cross_entropy'] == 2


def test_a_summary_passes_over_rounds_without_a_number():
    history = [row(1, 0.2, float('nan')), row(2, 0.4, 1.0), row(3, 0.6, 2.0)]
    assert summarise(history)['max']['server/cross_entropy'] == 1.0
