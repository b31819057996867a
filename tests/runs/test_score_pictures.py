"""The clients' scores of a run, kept and drawn."""
import matplotlib.pyplot as plt
import numpy as np
import pytest
import tensorflow as tf
from toys import make_dataset, make_settings, make_simulation

from virtual_tf.runs import event_files, final_scores, hooks, score_pictures
from virtual_tf.simulator.evaluation import Scores


@pytest.fixture(scope='module')
def ended(tmp_path_factory):
    """(folder, state) of a run whose hook has been told of the end."""
    folder, settings = tmp_path_factory.mktemp('run'), make_settings(eval_samples=2)
    state = make_simulation(settings, make_dataset()).start()
    hooks.ScorePictures(folder, state, 'virtual', 'a title').on_end({'rounds': 3})
    return folder, state


def test_scores_are_kept_client_by_client(ended):
    folder, state = ended
    found = final_scores.load(folder)
    assert list(found) == ['server', 'mt', 'server_sampled', 'mt_sampled']
    for model, scores in state.scores.items():
        assert np.array_equal(found[model]['targets'], scores.targets)
        assert all(np.array_equal(found[model][metric], sums) for metric, sums in scores.sums.items())
    assert final_scores.load(folder / 'nowhere') == {}


def test_the_pictures_are_in_the_folder_and_in_tensorboard(ended):
    folder, _ = ended
    tags = {value.tag for path in folder.glob('events.*') for record in event_files._records(path)
            for value in event_files.Event.FromString(record).summary.value}
    assert tags == {'pictures/reliability', 'pictures/clients'}
    for name in (score_pictures.RELIABILITY, score_pictures.CLIENTS):
        assert tf.io.decode_png((folder / name).read_bytes()).shape[0] > 300


def test_a_line_a_method_of_clients_in_ascending_order(tmp_path, monkeypatch):
    monkeypatch.setattr(plt, 'close', lambda figure: None)

    def scores(hits):
        return Scores({'hits': np.array(hits), 'calibration': np.zeros([len(hits), 15, 3])}, np.array([4, 4, 0]))

    for name, hits in (('one', [3.0, 1.0, 0.0]), ('two', [4.0, np.nan, 0.0])):
        (tmp_path / name).mkdir()
        final_scores.save(tmp_path / name, {'server': scores(hits), 'mt': scores(hits)})
    runs = {name: [final_scores.load(tmp_path / name)] for name in ('one', 'two')}
    score_pictures.clients(runs, tmp_path / 'c.png', '')
    first, second = plt.gcf().axes[0].get_lines()
    # Clients without targets, and those that were never measured, have no place.
    assert (first.get_label(), first.get_ydata().tolist(), first.get_xdata().tolist()) == ('one', [25, 75], [25, 75])
    assert (second.get_label(), second.get_ydata().tolist()) == ('two', [100])


def test_discs_stand_at_confidence_and_accuracy_and_an_empty_bin_has_none(monkeypatch, tmp_path):
    monkeypatch.setattr(plt, 'close', lambda figure: None)
    bins = np.zeros([2, 15, 3])
    bins[0, 10], bins[1, 10], bins[1, 14] = (2, 1.4, 1), (2, 1.4, 2), (4, 4.0, 4)
    found = {'server': {'calibration': bins}, 'mt': {'calibration': bins}}
    score_pictures.reliability({'a': [found], 'old': [{}]}, tmp_path / 'r.png', '')
    points = plt.gcf().axes[0].collections[0].get_offsets()
    np.testing.assert_allclose(points, [[0.7, 0.75], [1.0, 1.0]])


@pytest.mark.filterwarnings('error')
def test_a_method_without_a_servers_model_leaves_a_panel_empty_and_says_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(plt, 'close', lambda figure: None)
    bins = np.zeros([1, 15, 3])
    bins[0, 10] = 2, 1.4, 1
    targets = np.array([2])
    found = {'mt': {'calibration': bins, 'hits': np.array([1.0]), 'targets': targets}}
    for draw in (score_pictures.reliability, score_pictures.clients):
        draw({'fedper': [found]}, tmp_path / 'p.png', '')
        assert [axis.get_title() for axis in plt.gcf().axes if axis.get_legend()][:1] == ['MT']
