import json
import shutil

import numpy as np
import pytest
import small_runs
from absl import logging

import virtual_tf as vt
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.runs import opened
from virtual_tf.simulator import checkpoints, client_store


@pytest.fixture(scope='module')
def played(tmp_path_factory):
    """(folder, settings, dataset, history) of VIRTUAL with private weights."""
    folder = tmp_path_factory.mktemp('opened') / 'run'
    return folder, *small_runs.play(folder, 'mlp', 'virtual', checkpoint_every=1)


@pytest.fixture
def copy(played, tmp_path):
    return shutil.copytree(played[0], tmp_path / 'copy')


def snapshot(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob('*') if path.is_file()}


def test_settings_history_and_names_are_the_runs(played):
    folder, settings, dataset, history = played
    run = vt.open_run(folder)
    assert run.settings == settings and run.clients == dataset.clients and run.finished
    assert run.history['mt/accuracy'].tolist() == [row['mt/accuracy'] for row in history]


def test_the_servers_scores_are_s_and_the_clients_are_mt(played):
    folder, _, dataset, history = played
    run = vt.open_run(folder)
    before = snapshot(folder)
    s = run.server.evaluate(dataset.test.x, dataset.test.y)
    assert s['accuracy'] == history[-1]['server/accuracy']
    assert s['cross_entropy'] == pytest.approx(history[-1]['server/cross_entropy'], rel=1e-6)
    stored = run.checkpoint.scores['mt']
    for number, name in enumerate(dataset.clients):
        if name != small_runs.NEVER:
            x, y = dataset.test.client(number)
            found = run.client(name).evaluate(x, y)
            assert found['accuracy'] * len(y) == pytest.approx(stored['hits'][number])
            assert found['cross_entropy'] * len(y) == pytest.approx(stored['loss'][number], rel=1e-6)
    assert snapshot(folder) == before


def test_one_client_is_read_and_no_data(played, monkeypatch):
    folder, _, dataset, _ = played
    read = []
    original = client_store._read_file
    monkeypatch.setattr(client_store, '_read_file', lambda *key: read.append(key[1]) or original(*key))
    monkeypatch.setattr(opened.data, 'load', None)
    vt.open_run(folder).client('client b').predict(dataset.test.x)
    assert read == [1]


def test_a_client_that_was_never_selected_answers_with_the_servers_model_and_says_so(played, monkeypatch):
    folder, _, dataset, _ = played
    told = []
    monkeypatch.setattr(logging, 'warning', lambda text, *values: told.append(text % values))
    run = vt.open_run(folder)
    model = run.client(small_runs.NEVER)
    assert told == ["client 'client d' was never selected in 2 rounds: it answers with the server's model"]
    assert not model.trained and 'never selected' in repr(model) and run.client('client a').trained
    for own, servers in zip(model.predict(dataset.test.x, samples=3), run.server.predict(dataset.test.x, samples=3)):
        np.testing.assert_array_equal(own, servers)


def test_an_unknown_client_gets_its_nearest_names(played):
    with pytest.raises(VirtualTfError, match="client 'Client b' is unknown; nearest of 4 are 'client b', 'client"):
        vt.open_run(played[0]).client('Client b')


def test_a_run_of_a_version_that_did_not_describe_its_data_loads_it(played, copy, monkeypatch):
    _, _, dataset, _ = played
    (copy / 'clients.json').unlink()
    config = json.loads((copy / 'config.json').read_text())
    for key in ('input_shape', 'input_type', 'target_shape', 'num_classes'):
        del config['data'][key]
    (copy / 'config.json').write_text(json.dumps(config))
    monkeypatch.setattr(opened.data, 'load', lambda data_dir, settings: dataset)
    found, expected = (vt.open_run(folder).client('client a').predict(dataset.test.x) for folder in (copy, played[0]))
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)
    monkeypatch.setattr(opened.data, 'load', lambda data_dir, settings: small_runs.make_data('mlp', seed=1))
    with pytest.raises(VirtualTfError, match='is not the data any more'):
        vt.open_run(copy).client('client a')


def test_a_damaged_checkpoint_is_passed_over_and_left_where_it_is(copy, played):
    newest = max((copy / 'checkpoints').glob('*.ckpt'))
    newest.write_bytes(newest.read_bytes()[:-1])
    run = vt.open_run(copy)
    assert run.server.round == 1 and newest.exists()
    for path in (copy / 'checkpoints').glob('*.ckpt'):
        path.write_bytes(b'torn')
    with pytest.raises(VirtualTfError, match=r'none of the 2 checkpoints in .* is whole; --noresume'):
        vt.open_run(copy).server     # noqa: B018


def test_a_damaged_client_comes_from_the_checkpoint_before(copy):
    # Client c was selected in both rounds.
    path = copy / 'checkpoints' / 'clients' / '2.2'
    path.write_bytes(path.read_bytes()[:-1])
    assert vt.open_run(copy).client('client c').round == 1
    (copy / 'checkpoints' / 'clients' / '2.1').unlink()
    with pytest.raises(VirtualTfError, match='none of the 2 checkpoints'):
        vt.open_run(copy).client('client c')


def test_a_run_that_goes_on_and_has_removed_what_was_just_read_is_read_anew(copy):
    run = vt.open_run(copy)
    assert run.checkpoint.round == 2
    # As round 3 does: a new version of client c, and the old ones go.
    points = run._folder.checkpoints
    header, leaves = client_store.safe_files.read_record(points.clients_folder / '2.2')
    with open(points.clients_folder / '2.3', 'wb') as file:
        client_store.safe_files.write_record(file, header | {'version': 3}, leaves)
    found = points.newest()
    for path in (copy / 'checkpoints').glob('*.ckpt'):
        path.unlink()
    with open(copy / 'checkpoints' / 'round-000003.ckpt', 'wb') as file:
        client_store.safe_files.write_record(file, *checkpoints._encode(
            found._replace(round=3, manifest=found.manifest | {2: 3})))
    (points.clients_folder / '2.2').unlink()
    (points.clients_folder / '2.1').unlink()
    assert run.client('client c').round == 3


def test_what_is_no_run_is_one_sentence(played, tmp_path):
    with pytest.raises(VirtualTfError, match='there is no folder'):
        vt.open_run(tmp_path / 'nowhere')
    with pytest.raises(VirtualTfError, match='has no run: it holds run, of which you want one'):
        vt.open_run(played[0].parent)
    (tmp_path / 'empty').mkdir()
    with pytest.raises(VirtualTfError, match=r'config\.json is missing'):
        vt.open_run(tmp_path / 'empty')


def test_without_checkpoints_there_is_a_history_and_no_model(copy, played):
    shutil.rmtree(copy / 'checkpoints')
    run = vt.open_run(copy)
    assert len(run.history['round']) == 2
    with pytest.raises(VirtualTfError, match='has no checkpoint, so it has no models'):
        run.server     # noqa: B018


def test_a_plugin_that_is_not_loaded_and_a_network_that_is_another_are_told(copy):
    config = json.loads((copy / 'config.json').read_text())
    (copy / 'config.json').write_text(json.dumps(config | {'plugins': {'mine.py': 'abc'}}))
    with pytest.raises(VirtualTfError, match=r'played with the plug-in mine\.py, which is not loaded'):
        vt.open_run(copy)
    (copy / 'config.json').write_text(json.dumps(config | {'settings': config['settings'] | {'use_bias': True}}))
    with pytest.raises(VirtualTfError, match='another network under the name mlp'):
        vt.open_run(copy).server     # noqa: B018
