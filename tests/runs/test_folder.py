"""The run folder's owner: what it recognises, refuses and mends."""
import json
import shutil

import numpy as np
import pytest
from run_checks import metrics
from toys import make_dataset, make_settings

from virtual_tf.core import plugins
from virtual_tf.core.errors import RunError, VirtualTfError
from virtual_tf.runs import driver
from virtual_tf.runs.folder import RunFolder, finished_below


@pytest.fixture(scope='module')
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp('run') / 'seed-0'
    settings, dataset = make_settings(rounds=4, checkpoint_every=2), make_dataset()
    driver.run(settings, dataset, folder, progress=False)
    return folder, settings, dataset


@pytest.fixture
def copy(played, tmp_path):
    """A finished run to do things to: (folder, settings, dataset)."""
    shutil.copytree(played[0], tmp_path / 'seed-0')
    return tmp_path / 'seed-0', *played[1:]


def without_checkpoints(folder):
    shutil.rmtree(folder / 'checkpoints')
    return (folder / 'metrics.jsonl').read_bytes()


def test_a_finished_run_is_known_also_without_its_checkpoints(copy):
    folder, settings, dataset = copy
    before = without_checkpoints(folder)
    summary = json.loads((folder / 'summary.json').read_text())
    assert RunFolder(folder).rounds_to_continue(settings) == 4
    found, history = driver.run(settings, dataset, folder, progress=False)
    assert found == summary and [row['round'] for row in history] == [1, 2, 3, 4]
    assert (folder / 'metrics.jsonl').read_bytes() == before


@pytest.mark.parametrize('change, words', [({'client_lr': 0.3}, 'client_lr = 0.3'), ({'rounds': 6}, 'no checkpoint')])
def test_without_checkpoints_another_run_does_not_replace_it(copy, change, words):
    folder, settings, dataset = copy
    before = without_checkpoints(folder)
    for attempt in (lambda other: driver.run(other, dataset, folder, progress=False),
                    lambda other: RunFolder(folder).rounds_to_continue(other)):
        with pytest.raises(VirtualTfError, match=words):
            attempt(settings.replace(**change))
    assert (folder / 'metrics.jsonl').read_bytes() == before and (folder / 'summary.json').exists()
    driver.run(settings.replace(rounds=1), dataset, folder, progress=False, resume=False)
    assert len(metrics(folder)) == 1


def test_other_data_does_not_replace_it_either(copy):
    folder, settings, _ = copy
    without_checkpoints(folder)
    with pytest.raises(VirtualTfError, match='other data under the name watch'):
        driver.run(settings, make_dataset(seed=1), folder, progress=False)


def test_results_without_their_settings_are_refused(copy):
    folder, settings, dataset = copy
    without_checkpoints(folder)
    (folder / 'config.json').unlink()
    with pytest.raises(VirtualTfError, match=r'config\.json is gone'):
        driver.run(settings, dataset, folder, progress=False)


def test_an_unfinished_run_without_a_checkpoint_begins_anew(copy):
    folder, settings, dataset = copy
    without_checkpoints(folder)
    (folder / 'summary.json').unlink()
    assert RunFolder(folder).rounds_to_continue(settings) == 0
    driver.run(settings, dataset, folder, progress=False)
    assert [row['round'] for row in metrics(folder)] == [1, 2, 3, 4]


def test_a_run_is_not_continued_with_an_edited_plugin(tmp_path, monkeypatch):
    monkeypatch.setattr(plugins, '_loaded', {})
    path, settings, dataset = tmp_path / 'mine.py', make_settings(rounds=2, checkpoint_every=1), make_dataset()
    path.write_text('# nothing\n')
    plugins.load(path)
    driver.run(settings, dataset, tmp_path / 'run', progress=False)
    monkeypatch.setattr(plugins, '_loaded', {})
    path.write_text('# nothing else\n')
    plugins.load(path)
    with pytest.raises(VirtualTfError, match=r'other plug-ins \(mine\.py: edited'):
        driver.run(settings.replace(rounds=3), dataset, tmp_path / 'run', progress=False)


def test_the_same_data_under_another_path_is_the_same_run(tmp_path):
    dataset, settings = make_dataset(), make_settings(rounds=2, dataset='npz:/a/mine.npz')
    driver.run(settings, dataset, tmp_path / 'run', progress=False)
    moved = settings.replace(dataset='npz:/b/mine.npz', rounds=3)
    assert RunFolder(tmp_path / 'run').rounds_to_continue(moved) == 2
    assert len(driver.run(moved, dataset, tmp_path / 'run', progress=False)[1]) == 3
    for other in ('leaf:/a/mine.npz', 'watch'):
        with pytest.raises(VirtualTfError, match='dataset = '):
            RunFolder(tmp_path / 'run').rounds_to_continue(settings.replace(dataset=other))
    with pytest.raises(VirtualTfError, match='other data'):
        driver.run(moved.replace(rounds=4), make_dataset(seed=1), tmp_path / 'run', progress=False)


def damage(folder, line):
    lines = (folder / 'metrics.jsonl').read_text().splitlines()
    lines[line - 1] = lines[line - 1][:20]
    (folder / 'metrics.jsonl').write_text('\n'.join(lines) + '\n')


def test_what_metrics_jsonl_has_lost_comes_from_tensorboards_events(copy):
    folder, settings, dataset = copy
    whole = metrics(folder)
    damage(folder, 2)
    _, history = driver.run(settings.replace(rounds=5), dataset, folder, progress=False)
    assert [row['round'] for row in history] == [1, 2, 3, 4, 5]
    # Events have float32.
    for key, value in whole[1].items():
        np.testing.assert_allclose(history[1][key], value, rtol=1e-6, err_msg=key)
    assert metrics(folder)[0] == whole[0] and metrics(folder)[2] == whole[2]


def test_what_nobody_has_any_more_is_a_gap_that_is_marked(copy):
    folder, settings, dataset = copy
    for path in folder.glob('events.*'):
        path.unlink()
    damage(folder, 2)
    summary, history = driver.run(settings.replace(rounds=6), dataset, folder, progress=False)
    assert [row.get('gap', False) for row in history] == [False, True, False, False, False, False]
    assert np.isnan(history[1]['server/accuracy'])
    best = max(row['server/accuracy'] for row in history if 'gap' not in row)
    assert summary['max']['server/accuracy'] == best and metrics(folder)[1]['gap'] is True


def test_runs_below_a_folder_come_by_seed(copy):
    folder, *_ = copy
    run, = finished_below(folder.parent)
    assert run.seed == 0 and run.rounds == 4 and run.metrics['server/accuracy'].shape == (4,)
    (folder / 'summary.json').unlink()
    assert finished_below(folder.parent) == []
    with pytest.raises(VirtualTfError, match='no finished run'):
        RunFolder(folder).read()


def test_reading_what_is_no_run_says_what_it_is(copy, tmp_path):
    with pytest.raises(VirtualTfError, match=r'there is no folder .*/nowhere'):
        RunFolder(tmp_path / 'nowhere').read()
    with pytest.raises(VirtualTfError, match='it holds seed-0, of which you want one'):
        RunFolder(tmp_path).read()


@pytest.mark.parametrize('arguments', [
    ('watch', 'watch'), (make_settings(), 'watch'), (make_dataset(), make_settings())])
def test_arguments_that_are_something_else_are_told(arguments, tmp_path):
    with pytest.raises(VirtualTfError, match='run takes settings, a data set and a folder; got'):
        driver.run(*arguments, tmp_path)


def test_a_plugin_that_was_renamed_is_the_same(tmp_path, monkeypatch):
    settings, dataset = make_settings(rounds=2, checkpoint_every=1), make_dataset()
    for name, rounds in (('mine.py', 2), ('yours.py', 3)):
        monkeypatch.setattr(plugins, '_loaded', {})
        (tmp_path / name).write_text('# nothing\n')
        plugins.load(tmp_path / name)
        driver.run(settings.replace(rounds=rounds), dataset, tmp_path / 'run', progress=False)
    assert len(metrics(tmp_path / 'run')) == 3


def test_a_run_that_learns_nothing_ends_with_what_helps(tmp_path, caplog):
    """Features times 10^30: no client's loss is finite."""
    dataset = make_dataset()
    dataset.train.x[:] *= 1e30
    with pytest.raises(RunError, match=r'in 3 rounds in a row .* --standardize=client, a smaller --client_lr'):
        driver.run(make_settings(rounds=9), dataset, tmp_path, progress=False)
    assert [row['applied_clients'] for row in metrics(tmp_path)] == [0, 0, 0]
    assert 'round 3: all 2 clients that trained were dropped' in caplog.text


def test_drops_stand_in_the_summary(tmp_path):
    dataset = make_dataset()
    dataset.train.x[dataset.train.offsets[1]] = np.nan
    summary, history = driver.run(make_settings(rounds=4, clients_per_round=4), dataset, tmp_path, progress=False)
    assert summary['dropped_clients'] == 4 == sum(row['dropped_clients'] for row in history)
    assert {row['applied_clients'] for row in history} == {3}


def test_a_disk_that_is_full_before_the_first_checkpoint_is_not_told_to_have_one(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, 'No space left on device')
    monkeypatch.setattr(RunFolder, 'begin', full)
    with pytest.raises(RunError, match=r'No space left on device.*there is no checkpoint yet'):
        driver.run(make_settings(), make_dataset(), tmp_path, progress=False)
