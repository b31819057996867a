"""Foreign examples: the AUROC against scikit-learn, and what a run's server says of them."""
import numpy as np
import pytest
from sklearn import metrics as reference

import virtual_tf as vt
from virtual_tf import data
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.report import uncertainty_table
from virtual_tf.runs import driver, opened, out_of_distribution


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    """A short run on the embedded data, opened."""
    folder = tmp_path_factory.mktemp('watch')
    settings = vt.make_settings(dataset='watch', rounds=2, epochs=3, compile='graph', private='none', histogram_every=0)
    driver.run(settings, data.load('', settings), folder, progress=False)
    return opened.open_run(folder)


def test_auroc_is_scikit_learn_s_with_ties():
    generator = np.random.default_rng(0)
    inside, outside = generator.integers(0, 20, 50) / 20, generator.integers(4, 25, 30) / 20
    expected = reference.roc_auc_score(np.repeat([0, 1], [50, 30]), np.concatenate([inside, outside]))
    assert out_of_distribution.auroc(inside, outside) == pytest.approx(expected, abs=1e-12)
    assert out_of_distribution.auroc(inside, inside) == 0.5
    assert out_of_distribution.auroc(np.zeros(3), np.ones(2)) == 1.0


def test_shuffled_examples_have_the_same_features_in_another_order():
    x = np.arange(24.0).reshape(4, 3, 2)
    found = out_of_distribution.shuffled(x, seed=0)
    assert found.shape == x.shape and not np.array_equal(found, x)
    assert np.array_equal(np.sort(found.reshape(4, -1), axis=1), x.reshape(4, -1))
    assert np.array_equal(found, out_of_distribution.shuffled(x, seed=0))


def test_each_score_ranks_what_the_server_says_of_both(run):
    found = out_of_distribution.measure(run, 'shuffled', '', samples=3)
    assert list(found) == ['entropy', 'entropy_sampled', 'mutual_information']
    inside = run.load_data().test.x
    outside = out_of_distribution.shuffled(inside, run.settings.seed)
    told = np.repeat([0, 1], len(inside))
    for name, samples in (('entropy', 0), ('entropy_sampled', 3)):
        entropies = np.concatenate([run.server.predict(x, samples=samples).entropy for x in (inside, outside)])
        assert found[name] == pytest.approx(reference.roc_auc_score(told, entropies), abs=1e-9)
    assert list(out_of_distribution.measure(run, 'shuffled', '', samples=0)) == ['entropy']


def test_data_of_another_shape_is_refused(run):
    with pytest.raises(VirtualTfError, match=r'synthetic has examples of shape .* choose data of the same shape'):
        out_of_distribution.measure(run, 'synthetic', '')


def test_what_was_measured_is_kept_beside_the_run(run, monkeypatch):
    first = uncertainty_table.foreign(run.path, ('shuffled',), '')
    monkeypatch.setattr(out_of_distribution, 'measure', None)
    assert uncertainty_table.foreign(run.path, ('shuffled',), '') == first
