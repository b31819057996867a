import numpy as np
import pytest
import small_runs

import virtual_tf as vt
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.runs import adaptation


@pytest.fixture(scope='module', params=['virtual', 'fedavg'])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp('adapted') / 'run'
    small_runs.play(folder, 'mlp', request.param, private='none')
    return vt.open_run(folder)


@pytest.fixture(scope='module')
def archive(tmp_path_factory):
    """A client whose label is the sign of its first feature."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=(60, 3)).astype(np.float32)
    path = tmp_path_factory.mktemp('data') / 'ann.npz'
    np.savez(path, x=x, y=(x[:, 0] > 0).astype(int), client=np.full(60, 'ann'))
    return path


def files(run):
    return {path: path.read_bytes() for path in run.path.rglob('*') if path.is_file()}


def test_a_newcomer_learns_its_data_and_the_run_stays_as_it_was(run, archive, tmp_path):
    before = files(run)
    dataset = adaptation.load(run, tmp_path, f'npz:{archive}')
    found = adaptation.train(run, dataset, 40)
    metrics = adaptation.save(run, found, dataset, tmp_path / 'ann')
    assert files(run) == before
    assert metrics['mt/cross_entropy'] < metrics['server/cross_entropy'] and metrics['mt/accuracy'] > 0.8
    # What was kept is the same model, to be opened like a run.
    kept = vt.open_run(tmp_path / 'ann')
    x, y = dataset.test.client(0)
    assert kept.clients == ('ann',) and kept.config['adapted_from'] == str(run.path)
    np.testing.assert_array_equal(kept.client('ann').predict(x).probabilities, found.model.predict(x).probabilities)
    np.testing.assert_array_equal(kept.server.predict(x).probabilities, run.server.predict(x).probabilities)
    assert kept.client('ann').evaluate(x, y)['accuracy'] == metrics['mt/accuracy'] == kept.history['mt/accuracy'][-1]
    assert kept.client_accuracies() == {'ann': (metrics['mt/accuracy'], len(y))}
    with pytest.raises(VirtualTfError, match='holds a run already; give another output'):
        adaptation.save(run, found, dataset, tmp_path / 'ann')


def test_in_python_it_is_one_call_and_the_same_model(run, archive, tmp_path):
    dataset = adaptation.load(run, tmp_path, f'npz:{archive}')
    x, y = dataset.train.client(0)
    one = run.adapt(x, y, epochs=2, name='ann')
    other = adaptation.train(run, dataset, 2).model
    np.testing.assert_allclose(one.predict(x).probabilities, other.predict(x).probabilities, atol=1e-6)
    assert one.name == 'ann' and one.round == run.checkpoint.round


def test_data_that_does_not_fit_is_one_sentence(run, tmp_path):
    x, y = small_runs.make_data('mlp').train.client(0)
    for wrong, sentence in (((x[:, :2], y), 'x has 2 features'), ((x, y + 4), 'y has the label'),
                            ((x[:0], y[:0]), 'no examples')):
        with pytest.raises(VirtualTfError, match=sentence):
            run.adapt(*wrong)
    with pytest.raises(VirtualTfError, match='epochs must be at least 1, got 0'):
        run.adapt(x, y, epochs=0)
    rows = np.arange(24)
    np.savez(tmp_path / 'two.npz', x=np.tile(x, (4, 1)), y=rows % 2, client=rows // 12)
    with pytest.raises(VirtualTfError, match='has 2 clients; give each client a source with its own data alone'):
        adaptation.load(run, tmp_path, f'npz:{tmp_path / "two.npz"}')
