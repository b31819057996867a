import json

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.plugins.hparams import plugin_data_pb2
from toys import make_dataset, make_settings, make_simulation

from virtual_tf.core import strict_json
from virtual_tf.runs import hooks
from virtual_tf.runs.folder import RunFolder
from virtual_tf.simulator.metrics import best_of


@pytest.fixture(scope='module')
def logged(tmp_path_factory):
    """Three rounds, histograms every second one: (events by tag, history, settings, private scales by round)."""
    folder = tmp_path_factory.mktemp('events')
    settings = make_settings(private='joint', histogram_every=2)
    simulation = make_simulation(settings, make_dataset())
    hook = hooks.TensorBoard(folder, settings)
    state, history, scales = simulation.start(), [], {}
    for metrics in simulation.run(state):
        history.append(metrics)
        hook.on_round(metrics, simulation, state)
        trained = state.clients.read(simulation.cohort_ids(metrics['round'])).private.weights
        scales[metrics['round']] = trained['dense_1/kernel'].scale
    summary = {'rounds': 3, 'max': {'server/accuracy': 0.75}, 'last_5': {'server/accuracy': 0.625},
               'final': {'server/accuracy': 0.5}}
    hook.on_end(summary)
    hook.close()
    path, = folder.glob('events.out.tfevents.*')
    tags = {}
    for record in tf.data.TFRecordDataset(str(path)):
        event = tf.compat.v1.Event.FromString(record.numpy())
        for value in event.summary.value:
            tags.setdefault(value.tag, []).append((event.step, value))
    return tags, history, settings, scales


def test_every_metric_of_every_round_is_a_scalar(logged):
    tags, history, *_ = logged
    for key in set(history[0]) - {'round'}:
        steps, values = zip(*((step, float(tf.make_ndarray(value.tensor))) for step, value in tags[key]))
        assert steps == (1, 2, 3)
        np.testing.assert_allclose(values, [row[key] for row in history], rtol=1e-6)


def test_histograms_of_server_and_clients_come_every_n_rounds_and_after_the_last(logged):
    tags, *_ = logged
    for owner in ('server_shared', 'clients_shared', 'clients_private'):
        for quantity in ('mean', 'log10_precision', 'log10_snr'):
            (step, value), (last, _) = tags[f'{owner}/dense_1/kernel/{quantity}']
            assert (step, last) == (2, 3) and value.metadata.plugin_data.plugin_name == 'histograms'
    assert not any(tag.startswith('server_private') for tag in tags)


def test_a_histogram_is_of_the_values_it_names(logged):
    tags, _, _, scales = logged
    (_, value), _ = tags['clients_private/dense_1/kernel/log10_precision']
    buckets = tf.make_ndarray(value.tensor)     # rows of left end, right end, count
    expected = -2 * np.log10(scales[2])
    # Two clients with 3 × 4 weights each.
    assert buckets[:, 2].sum() == expected.size == 24
    np.testing.assert_allclose([buckets[0, 0], buckets[-1, 1]], [expected.min(), expected.max()], rtol=1e-5)


def test_the_hparams_dashboard_has_the_session_and_the_summary_metrics(logged):
    tags, _, settings, *_ = logged
    (_, start), = tags['_hparams_/session_start_info']
    assert start.metadata.plugin_data.plugin_name == 'hparams'
    data = plugin_data_pb2.HParamsPluginData.FromString(start.metadata.plugin_data.content)
    recorded = data.session_start_info.hparams
    assert recorded['seed'].number_value == settings.seed
    assert recorded['private'].string_value == 'joint'
    assert recorded['kl_weight'].number_value == settings.kl_weight
    (_, experiment), = tags['_hparams_/experiment']
    listed = plugin_data_pb2.HParamsPluginData.FromString(experiment.metadata.plugin_data.content).experiment
    assert {f'{protocol}/{model}/{metric}' for protocol in ('max', 'last_5', 'final')
            for model in ('server', 'mt') for metric in best_of()} == {
                info.name.tag for info in listed.metric_infos}
    # TensorBoard has a column for five settings, those that are marked before the others
    assert {info.name for info in listed.hparam_infos} == set(recorded)
    assert [info.name for info in listed.hparam_infos if info.differs] == [
        'method', 'client_lr', 'server_lr', 'kl_weight', 'private']
    (step, best), = tags['max/server/accuracy']
    assert step == 3 and float(tf.make_ndarray(best.tensor)) == 0.75


def test_json_lines_are_strict_one_object_a_round(tmp_path):
    path = tmp_path / 'metrics.jsonl'
    hook = hooks.JsonLines(RunFolder(tmp_path))
    hook.on_round({'round': 1, 'train/loss': float('nan'), 'x': 0.5}, None, None)
    lines = path.read_text().splitlines()
    assert len(lines) == 1, 'a line is there as soon as its round is over'
    hook.on_round({'round': 2, 'train/loss': float('inf'), 'x': -1.0}, None, None)
    hook.close()

    def refuse(constant):
        raise AssertionError(f'{constant} is no JSON')

    rows = [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]
    assert rows == [{'round': 1, 'train/loss': None, 'x': 0.5}, {'round': 2, 'train/loss': None, 'x': -1.0}]


def test_json_replaces_what_is_not_finite_at_any_depth():
    assert json.loads(strict_json.to_json({'a': {'b': float('nan')}, 'c': [float('inf'), 1.0]})) == {
        'a': {'b': None}, 'c': [None, 1.0]}


def test_the_progress_bar_shows_accuracies_in_percent_on_stderr(capsys):
    bar = hooks.ProgressBar('virtual', 2)
    for number in (1, 2):
        bar.on_round({'round': number, 'server/accuracy': 0.123, 'mt/accuracy': 0.5, 'train/loss': 1.5}, None, None)
    bar.close()
    shown = capsys.readouterr()
    assert shown.out == '' and 'virtual' in shown.err and '2/2' in shown.err
    assert 'S=12.3' in shown.err and 'MT=50.0' in shown.err and 'loss=1.500' in shown.err
