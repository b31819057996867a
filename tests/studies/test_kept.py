import dataclasses
import json
import math

import numpy as np
import pytest

from virtual_tf.report import figures
from virtual_tf.studies import experiments, kept

EACH = experiments.table2('har', 'fedavg')


def write_run(root, settings, values, end=True):
    folder = root / EACH.folder(settings.seed)
    folder.mkdir(parents=True)
    (folder / 'config.json').write_text(json.dumps(
        {'settings': dataclasses.asdict(settings), 'data': {'clients': 30}}))
    (folder / 'metrics.jsonl').write_text(''.join(json.dumps(
        {'round': i + 1, **dict.fromkeys(kept.KEYS, value), 'other': 1}) + '\n' for i, value in enumerate(values)))
    if end:
        (folder / 'summary.json').write_text('{}')


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
    runs = kept.finished(tmp_path / EACH.name)
    assert [run.seed for run in runs] == [2, 10] and [run.data['clients'] for run in runs] == [30, 30]
    assert runs[0].metrics['train/loss'].tolist() == [0.5, 0.25] and math.isnan(runs[1].metrics['mt/accuracy'][1])


def test_a_kept_run_has_its_curves_in_five_digits_its_settings_and_no_folder(tmp_path):
    values = [1 / 3, None, 12345.678]
    write_run(tmp_path, EACH.settings(1), values)
    run = kept_of(tmp_path, tmp_path / 'kept.jsonl')[EACH.folder(1)]
    # 1/3 and 12345.678 to five digits; what is not finite stays so
    assert run.metrics['train/loss'] == pytest.approx([0.33333, math.nan, 12346.0], rel=1e-12, nan_ok=True)
    assert run.metrics['round'].tolist() == [1, 2, 3] and run.rounds == 3
    assert run.settings == dataclasses.asdict(EACH.settings(1)) and (run.data, run.folder) == ({'clients': 30}, None)
    assert kept.load(tmp_path / 'none.jsonl') == {}


def test_a_folder_comes_before_what_was_kept_of_it(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / 'old', EACH.settings(seed), [1.0])
    kept = kept_of(tmp_path / 'old', tmp_path / 'kept.jsonl')
    write_run(tmp_path / 'new', EACH.settings(1), [2.0])
    runs = kept.runs_of(EACH, tmp_path / 'new', kept)
    assert [(run.seed, run.metrics['train/loss'][0]) for run in runs] == [(0, 1.0), (1, 2.0)]


def test_what_was_kept_comes_before_a_folder_of_other_settings(tmp_path):
    write_run(tmp_path / 'old', EACH.settings(0), [1.0])
    kept = kept_of(tmp_path / 'old', tmp_path / 'kept.jsonl')
    write_run(tmp_path / 'trial', dataclasses.replace(EACH.settings(0), rounds=3), [2.0])
    run, = kept.runs_of(EACH, tmp_path / 'trial', kept)
    assert run.metrics['train/loss'][0] == 1.0 and kept.as_asked(EACH, run)
    run, = kept.runs_of(EACH, tmp_path / 'trial', {})
    assert run.metrics['train/loss'][0] == 2.0 and not kept.as_asked(EACH, run)


@pytest.mark.parametrize('change', [{'client_lr': 0.123}, {'rounds': 7}])
def test_what_was_kept_of_other_settings_does_not_count(tmp_path, change):
    write_run(tmp_path, dataclasses.replace(EACH.settings(0), **change), [1.0])
    kept = kept_of(tmp_path, tmp_path / 'kept.jsonl')
    assert np.all([run.settings[name] == value for run in kept.values() for name, value in change.items()]) and kept
    assert kept.runs_of(EACH, tmp_path / 'gone', kept) == []
    assert kept.runs_of(experiments.table2('har', 'virtual'), tmp_path / 'gone', kept) == []
