import math

import numpy as np
import pytest
import stored_runs

from virtual_tf.report import figures
from virtual_tf.runs.folder import finished_below
from virtual_tf.studies import experiments, kept

EACH = experiments.table2('har', 'fedavg')


def write_run(root, settings, values, end=True):
    stored_runs.write(root / EACH.folder(settings.seed), settings,
                      [dict.fromkeys(kept.KEYS, value) | {'other': 1} for value in values], end=end)


def kept_of(root, path):
    """All runs of EACH below root, written to the path and read again."""
    kept.save(path, {EACH.folder(run.seed): run for run in kept.runs_of(EACH, root, {})})
    return kept.load(path)


def test_the_metrics_of_every_learning_curve_are_kept():
    assert set(kept.KEYS) == {key for key, *_ in (*figures.CROSS_ENTROPY, *figures.ACCURACY)}


def test_runs_are_read_by_seed_and_only_when_finished(tmp_path):
    write_run(tmp_path, EACH.settings(10), [0.5, None])
    write_run(tmp_path, EACH.settings(2), [0.5, 0.25])
    write_run(tmp_path, EACH.settings(3), [0.5], end=False)
    runs = finished_below(tmp_path / EACH.name)
    assert [run.seed for run in runs] == [2, 10] and [run.data['clients'] for run in runs] == [30, 30]
    assert runs[0].metrics['train/loss'].tolist() == [0.5, 0.25] and math.isnan(runs[1].metrics['mt/accuracy'][1])


def test_a_kept_run_has_its_curves_in_seven_digits_its_settings_and_no_folder(tmp_path):
    values = [1 / 3, math.nan, 123456.789]
    write_run(tmp_path, EACH.settings(1), values)
    run = kept_of(tmp_path, tmp_path / 'kept.jsonl')[EACH.folder(1)]
    # 1/3 and 123456.789 to seven digits; what is not finite stays so
    assert run.metrics['train/loss'] == pytest.approx([0.3333333, math.nan, 123456.8], rel=1e-12, nan_ok=True)
    assert run.metrics['round'].tolist() == [1, 2, 3] and run.rounds == 3
    assert run.settings == EACH.settings(1).to_dict() and run.data['clients'] == 30 and run.folder is None
    assert kept.load(tmp_path / 'none.jsonl') == {}


def test_what_is_said_of_a_run_as_kept_is_said_of_what_is_kept(tmp_path):
    write_run(tmp_path, EACH.settings(1), np.random.default_rng(0).uniform(size=50).tolist())
    run, = kept.runs_of(EACH, tmp_path, {})
    again = kept_of(tmp_path, tmp_path / 'kept.jsonl')[EACH.folder(1)]
    for key in ('round', *kept.KEYS):
        assert kept.as_kept(run).metrics[key].tolist() == again.metrics[key].tolist()
        assert kept.as_kept(again).metrics[key].tolist() == again.metrics[key].tolist()
    assert kept.as_kept(run).metrics[kept.KEYS[0]].tolist() != run.metrics[kept.KEYS[0]].tolist()


def test_a_folder_comes_before_what_was_kept_of_it(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / 'old', EACH.settings(seed), [1.0])
    before = kept_of(tmp_path / 'old', tmp_path / 'kept.jsonl')
    write_run(tmp_path / 'new', EACH.settings(1), [2.0])
    runs = kept.runs_of(EACH, tmp_path / 'new', before)
    assert [(run.seed, run.metrics['train/loss'][0]) for run in runs] == [(0, 1.0), (1, 2.0)]


def test_what_was_kept_comes_before_a_folder_of_other_settings(tmp_path):
    write_run(tmp_path / 'old', EACH.settings(0), [1.0])
    before = kept_of(tmp_path / 'old', tmp_path / 'kept.jsonl')
    write_run(tmp_path / 'trial', EACH.settings(0).replace(rounds=3), [2.0])
    run, = kept.runs_of(EACH, tmp_path / 'trial', before)
    assert run.metrics['train/loss'][0] == 1.0 and kept.as_asked(EACH, run)
    run, = kept.runs_of(EACH, tmp_path / 'trial', {})
    assert run.metrics['train/loss'][0] == 2.0 and not kept.as_asked(EACH, run)


@pytest.mark.parametrize('change', [{'client_lr': 0.123}, {'rounds': 7}])
def test_what_was_kept_of_other_settings_does_not_count(tmp_path, change):
    write_run(tmp_path, EACH.settings(0).replace(**change), [1.0])
    for each in (EACH, experiments.table2('har', 'virtual')):
        before = {each.folder(run.seed): run for run in finished_below(tmp_path / EACH.name)}
        assert len(before) == 1 and kept.runs_of(each, tmp_path / 'gone', before) == []


def test_what_was_kept_before_a_setting_was_added_counts_if_the_setting_has_its_default(tmp_path):
    write_run(tmp_path, EACH.settings(0), [1.0])
    run, = finished_below(tmp_path / EACH.name)
    for name, left in (('values', 1), ('dataset', 0)):     # its default is not HAR
        stored = {key: value for key, value in run.settings.items() if key != name}
        before = {EACH.folder(0): run._replace(settings=stored)}
        assert len(kept.runs_of(EACH, tmp_path / 'gone', before)) == left
