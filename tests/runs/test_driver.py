import contextlib
import json
import re

import pytest
from toys import make_dataset, make_settings

from virtual_tf.core import safe_files
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.methods import registry
from virtual_tf.networks import models
from virtual_tf.runs import driver
from virtual_tf.runs.folder import RunFolder


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """(folder, settings, dataset, summary, history) of a run into a folder that an earlier run has filled."""
    folder = tmp_path_factory.mktemp('runs') / 'virtual'
    folder.mkdir()
    (folder / 'events.out.tfevents.1.old').write_text('old')
    (folder / 'summary.json').write_text('old')
    (folder / 'metrics.jsonl').write_text('{"round": 77}\n')
    settings = make_settings(rounds=2, histogram_every=1)
    dataset = make_dataset()
    return folder, settings, dataset, *driver.run(settings, dataset, folder, progress=False, resume=False)


def test_a_run_writes_config_metrics_summary_picture_and_events(finished):
    folder, *_ = finished
    names = {path.name for path in folder.iterdir()}
    assert names >= {'config.json', 'metrics.jsonl', 'summary.json', 'learning_curves.png', 'checkpoints'}
    assert any(name.startswith('events.out.tfevents.') for name in names)
    assert (folder / 'learning_curves.png').read_bytes().startswith(b'\x89PNG')


def test_a_run_replaces_the_one_that_its_folder_held(finished):
    folder, *_ = finished
    events = list(folder.glob('events.out.tfevents.*'))
    assert events and not any(path.name.endswith('.old') for path in events)
    assert '77' not in (folder / 'metrics.jsonl').read_text().split('"round": ')[1].split(',')[0]


def test_the_files_hold_what_the_run_returned(finished):
    folder, settings, dataset, summary, history = finished
    assert json.loads((folder / 'summary.json').read_text()) == summary
    assert [json.loads(line) for line in (folder / 'metrics.jsonl').read_text().splitlines()] == history
    config = json.loads((folder / 'config.json').read_text())
    assert config['settings'] == settings.to_dict()
    assert config['data']['clients'] == 4 and config['data']['train_examples'] == len(dataset.train.y)
    assert set(config['versions']) >= {'python', 'tensorflow', 'tensorflow-probability', 'numpy'}
    assert re.fullmatch(r'([0-9a-f]{40}(-dirty)?)?', config['git_commit'])


def test_an_unknown_name_is_refused_with_the_known_ones():
    for name, known in (('method', 'fedavg'), ('model', 'mlp'), ('dataset', 'watch')):
        with pytest.raises(VirtualTfError, match=f"{name} 'nonsense' is unknown; known are .*{known}"):
            driver.check_names(registry.make_settings({name: 'nonsense'}))
    driver.check_names(make_settings())


def test_more_clients_a_round_than_there_are_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(VirtualTfError, match='clients_per_round = 5 is more than the 4 clients of toy'):
        driver.run(make_settings(clients_per_round=5), make_dataset(), tmp_path / 'out')
    assert not (tmp_path / 'out').exists()
    driver.check_fits(make_settings(clients_per_round=4), make_dataset())


def test_auto_takes_the_compiler_that_measured_faster():
    simulation = driver.build(make_settings(compile='auto'), make_dataset())
    assert simulation.settings.compile == models.FASTER_COMPILER['mlp']
    assert driver.build(make_settings(compile='graph'), make_dataset()).settings.compile == 'graph'


def test_settings_reach_the_network():
    simulation = driver.build(make_settings(use_bias=True, estimator='sample'), make_dataset())
    assert simulation.network.shapes()['dense_3/bias'] == (2,)
    assert {layer.estimator for _, layer in simulation.network.layers if hasattr(layer, 'units')} == {'sample'}


def test_checking_an_output_folder_makes_none(tmp_path):
    assert RunFolder(tmp_path / 'new' / 'run').rounds_to_continue(make_settings()) == 0
    assert list(tmp_path.iterdir()) == []
    (tmp_path / 'taken').write_text('mine')
    with pytest.raises(VirtualTfError, match=r'output folder .*/taken/run cannot be written'):
        RunFolder(tmp_path / 'taken' / 'run').rounds_to_continue(make_settings())
    assert (tmp_path / 'taken').read_text() == 'mine'


def test_checking_a_folder_leaves_what_another_command_has_begun(tmp_path, monkeypatch):
    def write_meanwhile(folder):
        (folder.parent / 'other').mkdir()
        return contextlib.nullcontext()
    monkeypatch.setattr(safe_files, 'locked', write_meanwhile)
    assert RunFolder(tmp_path / 'new' / 'run').rounds_to_continue(make_settings()) == 0
    assert [path.name for path in (tmp_path / 'new').iterdir()] == ['other']
