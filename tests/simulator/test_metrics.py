"""Metrics add up: over chunks, clients and machines the sums are those of all targets together."""
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf
from documented import block, registries  # noqa: F401
from toys import make_dataset, make_network, make_settings, make_simulation

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.methods import registry
from virtual_tf.runs import driver
from virtual_tf.simulator import evaluation, metrics
from virtual_tf.simulator.evaluation import Scores


@pytest.fixture
def bins(registries):     # noqa: F811
    """A metric whose statistic is an array: how many targets have which class, and the share of class 0."""
    @metrics.register
    class Bins(metrics.Metric):
        name, shape = 'bins', (2,)
        best: ClassVar[dict] = {'share': min}

        def of_targets(self, log_probabilities, y):
            return tf.one_hot(y, 2)

        def read(self, sums, targets):
            return {'share': sums[:, 0].sum() / targets.sum()}
    return Bins


def test_accuracy_and_cross_entropy_of_known_probabilities():
    log_probabilities = np.log(np.array([[[0.7, 0.3], [0.2, 0.8], [0.6, 0.4]]], np.float32))
    y = tf.constant([[0, 0, 1]])
    loss, hits = (metrics.METRICS[name].of_targets(tf.constant(log_probabilities), y) for name in ('loss', 'hits'))
    np.testing.assert_allclose(loss, [-np.log([0.7, 0.2, 0.4])], rtol=1e-6)
    assert hits.numpy().tolist() == [[1.0, 0.0, 0.0]]


def test_the_spread_is_the_weighted_deviation_of_the_clients():
    # accuracies 1/2 and 3/4 with weights 2 and 8: mean 0.7, variance 0.2·0.04 + 0.8·0.0025 = 0.01
    found = metrics.METRICS['hits'].read(np.array([1.0, 6.0]), np.array([2, 8]))
    assert (found['accuracy'], found['accuracy_std']) == pytest.approx((0.7, 0.1))


def test_an_array_is_summed_by_client_for_server_and_clients_alike(bins, monkeypatch):
    monkeypatch.setattr(evaluation, '_CHUNK', 5)     # chunks cut through clients
    dataset, settings = make_dataset(), make_settings()
    simulation = make_simulation(settings, dataset)
    state = simulation.start()
    expected = [np.bincount(dataset.test.client(i)[1], minlength=2) for i in range(4)]
    assert np.array_equal(state.scores['mt'].sums['bins'], expected)
    evaluator = simulation._evaluators['']
    found = evaluator.clients(state.clients.read([1, 3]), np.array([1, 3]))['mt']
    assert np.array_equal(found.sums['bins'], [expected[1], expected[3]])
    share = sum(row[0] for row in expected) / dataset.test.targets().sum()
    assert state.scores['mt'].summary()['share'] == pytest.approx(share)


def test_a_checkpoint_that_lacks_a_metric_has_it_measured_again(tmp_path, registries):     # noqa: F811
    settings, dataset = make_settings(rounds=3, checkpoint_every=1), make_dataset()
    driver.run(settings, dataset, tmp_path, progress=False)

    @metrics.register
    class Twice(metrics.Metric):
        name = 'twice'
        best: ClassVar[dict] = {'double': min}

        def of_targets(self, log_probabilities, y):
            return 2.0 * metrics.METRICS['loss'].of_targets(log_probabilities, y)

        def read(self, sums, targets):
            return {'double': sums.sum() / targets.sum()}

    summary, history = driver.run(settings.replace(rounds=4), dataset, tmp_path, progress=False)
    for model in ('server', 'mt'):
        assert history[-1][f'{model}/double'] == pytest.approx(2 * history[-1][f'{model}/cross_entropy'], rel=1e-6)
        assert summary['final'][f'{model}/double'] == history[-1][f'{model}/double']


def test_who_was_not_measured_is_left_out_and_before_anybody_was_all_is_nan():
    scores = Scores.unmeasured(np.array([2, 8, 0]), num_classes=2)
    assert {*metrics.best_of()} <= {*scores.summary()} and all(np.isnan(value) for value in scores.summary().values())
    scores.put([1], Scores({'loss': np.array([4.0]), 'hits': np.array([6.0])}, np.array([8])))
    found = scores.summary()
    assert (found['accuracy'], found['accuracy_std'], found['cross_entropy']) == (0.75, 0.0, 0.5)
    assert np.isnan(found['ece'])


def make(read, best, of_targets=lambda self, log_probabilities, y: tf.zeros(y.shape)):
    return type('Made', (metrics.Metric,), {'name': 'made', 'best': best, 'read': lambda self, *_: read,
                                            'of_targets': of_targets})


@pytest.mark.parametrize('read, best, message', [
    ({'accuracy': 1.0}, {'accuracy': max}, "metric 'made' reads out 'accuracy', which metric 'hits' gives"),
    ({'top3': 1.0}, {'top': min}, "names that read gives .top3., each with .* 'top'"),
    ({'top3': 1.0}, {'top3': 'max'}, "function max or min; it has 'top3': 'max'"),
    (1.0, {}, "read of metric 'made' must give")])
def test_a_metric_that_does_not_say_what_it_gives_is_refused(registries, read, best, message):     # noqa: F811
    with pytest.raises(VirtualTfError, match=message):
        metrics.register(make(read, best))
    assert 'made' not in metrics.METRICS


def test_a_share_of_another_shape_is_refused_and_not_broadcast(registries):     # noqa: F811
    metrics.register(make({'made': 1.0}, {}, lambda self, log_probabilities, y: tf.reduce_sum(log_probabilities)))
    with pytest.raises(VirtualTfError, match=r"metric 'made' gives the shape \[\] where it must be \[1, 3\]"):
        metrics.shares(tf.zeros([1, 3, 2]), tf.constant([[0, 1, -1]]))


def test_padding_has_no_share():
    found = metrics.shares(tf.math.log([[[0.5, 0.5]] * 3]), tf.constant([[0, 1, -1]]))
    np.testing.assert_allclose(found['loss'], [[[np.log(2), np.log(2), 0.0]]], rtol=1e-6)
    share, cell = found['calibration']
    assert not share.numpy()[0, 2].any() and cell.numpy()[0, 2] == 0


def test_a_taken_name_is_refused():
    with pytest.raises(VirtualTfError, match="metric 'loss' is there already"):
        metrics.register(type('Other', (metrics.Metric,), {'name': 'loss'}))


def test_the_documented_metric_counts_what_it_says(registries):     # noqa: F811
    exec(block('docs/extending.md', '# my_metric.py'), {'__name__': 'my_metric'})
    probabilities = np.array([[[0.4, 0.3, 0.2, 0.1]] * 4], np.float32)
    hits = metrics.METRICS['top3_hits'].of_targets(tf.constant(np.log(probabilities)), tf.constant([[0, 1, 2, 3]]))
    assert hits.numpy().tolist() == [[1.0, 1.0, 1.0, 0.0]]
    network, dataset = make_network(), make_dataset()
    algorithm = registry.find('fedavg').make(network, make_settings(method='fedavg'))
    found = evaluation.Evaluator(network, algorithm, dataset.test, make_settings()).server(algorithm.init(0))
    assert found['server'].summary()['top3'] == 1.0     # of two classes
