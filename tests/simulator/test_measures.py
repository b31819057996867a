"""Each measure against scikit-learn, or a case that can be worked out; parts add up to the whole."""
import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics as reference

from virtual_tf.simulator import metrics
from virtual_tf.simulator.evaluation import Scores
from virtual_tf.simulator.metrics import ranking


def measure(probabilities, y, owners=None, clients=1):
    """{name: number} of predictions [N, classes] for targets y [N] of so many clients."""
    owners = np.zeros(len(y), int) if owners is None else owners
    sums = totals(probabilities, y, owners, clients)
    return Scores(sums, np.bincount(owners[y >= 0], minlength=clients)).summary()


def totals(probabilities, y, owners, clients):
    return metrics.add_up(shares(probabilities, y), owners, clients, np.shape(probabilities)[-1])


def shares(probabilities, y):
    """metrics.shares of predictions [N, …, classes]."""
    logs = tf.math.log(tf.constant(probabilities, tf.float32))
    found = metrics.shares(logs[tf.newaxis], tf.constant(y)[tf.newaxis])
    return {name: [part.numpy()[0] for part in parts] for name, parts in found.items()}


def random_predictions(classes, count=500, seed=0):
    generator = np.random.default_rng(seed)
    # not below 0.001, as scikit-learn cuts off what is nearly 0
    probabilities = (0.99 * generator.dirichlet(np.full(classes, 0.5), count) + 0.01 / classes).astype(np.float32)
    y = np.array([generator.choice(classes, p=(row + 1) / (row + 1).sum()) for row in probabilities.astype(float)])
    return probabilities, y.astype(np.int32), generator


@pytest.mark.parametrize('classes', [2, 5])
def test_measures_agree_with_scikit_learn(classes):
    probabilities, y, _ = random_predictions(classes)
    found = measure(probabilities, y)
    likeliest = probabilities.argmax(axis=1)
    assert found['accuracy'] == pytest.approx(reference.accuracy_score(y, likeliest))
    assert found['balanced_accuracy'] == pytest.approx(reference.balanced_accuracy_score(y, likeliest))
    # scikit-learn wants rows that add up to 1 to the last digit, which float32 does not
    normed = probabilities / probabilities.sum(axis=1, keepdims=True)
    assert found['cross_entropy'] == pytest.approx(reference.log_loss(y, normed, labels=range(classes)), rel=1e-4)
    one_hot = np.eye(classes)[y]
    # of each class against the rest, and added up
    of_classes = [reference.brier_score_loss(one_hot[:, c], np.clip(probabilities[:, c], 0, 1)) for c in range(classes)]
    assert found['brier'] == pytest.approx(sum(of_classes), rel=1e-5)
    assert ('auroc' in found) == (classes == 2)


def test_auroc_is_scikit_learn_s_of_the_grid_and_near_that_of_the_scores():
    probabilities, y, _ = random_predictions(2)
    log_odds = np.log(probabilities[:, 1]) - np.log(probabilities[:, 0])
    cells = metrics.METRICS['log_odds'].cells(tf.constant(np.log(probabilities)), y).numpy()
    found = measure(probabilities, y)['auroc']
    assert found == pytest.approx(reference.roc_auc_score(y, cells), abs=1e-12)
    negatives, positives = (np.bincount(cells[y == label], minlength=ranking.CELLS) for label in (0, 1))
    in_one_cell = (negatives * positives).sum() / (negatives.sum() * positives.sum())
    assert abs(found - reference.roc_auc_score(y, log_odds)) <= in_one_cell / 2 < 0.01


def test_the_grid_of_auroc_is_as_fine_as_it_says():
    steps = np.diff(np.sinh(np.linspace(-ranking._LIMIT, ranking._LIMIT, ranking.CELLS + 1)))
    assert steps.min() == pytest.approx(0.05, rel=0.1)
    edges = np.sinh(np.linspace(0, ranking._LIMIT, ranking.CELLS // 2 + 1))
    assert np.all(np.diff(edges)[40:] / edges[40:-1] < 0.055)


def by_bins(probabilities, y):
    """The calibration error as its definition reads, bin by bin."""
    confidence, hit = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    error = 0.0
    for low, high in zip(np.arange(15) / 15, np.arange(1, 16) / 15):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            error += inside.mean() * abs(hit[inside].mean() - confidence[inside].mean())
    return error


def test_calibration_error_is_its_definition_pooled_by_client_and_worst():
    probabilities, y, generator = random_predictions(4)
    owners = generator.integers(0, 3, len(y))
    found = measure(probabilities, y, owners, clients=3)
    of_clients = [by_bins(probabilities[owners == i], y[owners == i]) for i in range(3)]
    assert found['ece'] == pytest.approx(by_bins(probabilities, y), rel=1e-5)
    assert found['ece_clients'] == pytest.approx(np.average(of_clients, weights=np.bincount(owners)), rel=1e-5)
    assert found['ece_worst'] == pytest.approx(max(of_clients), rel=1e-5)


def test_a_calibrated_prediction_has_no_error_and_the_brier_score_of_its_variance():
    # 0.75 right in 3 of 4: every other bin is empty
    found = measure([[0.75, 0.25]] * 8, np.array([0, 0, 0, 1] * 2, np.int32))
    assert found['ece'] == found['ece_worst'] == 0.0
    assert found['brier'] == pytest.approx(2 * 0.75 * 0.25)     # Σ_c p_c (1 − p_c)


@pytest.mark.parametrize('classes', [2, 4])
def test_a_constant_prediction_wins_nothing_that_counts_classes(classes):
    y = np.arange(40, dtype=np.int32) % classes
    y[:20] = 0
    constant = np.full([40, classes], 1e-9)
    constant[:, 0] = 1.0 - (classes - 1) * 1e-9
    found = measure(constant, y)
    assert found['accuracy'] == found['constant_accuracy'] == (y == 0).mean() > 1 / classes
    assert found['balanced_accuracy'] == pytest.approx(1 / classes)
    assert found['ece'] == pytest.approx((y != 0).mean(), abs=1e-6)     # sure of everything
    assert found['brier'] == pytest.approx(2 * (y != 0).mean(), abs=1e-6)
    if classes == 2:
        assert found['auroc'] == 0.5


def test_a_client_with_one_class_and_one_without_targets_have_their_place():
    probabilities = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]])
    y, owners = np.array([0, 0, 1, -1], np.int32), np.array([0, 0, 2, 2])
    sums = totals(probabilities, y, owners, 3)
    assert sums['class_hits'].tolist() == [[[2, 2], [0, 0]], [[0, 0]] * 2, [[0, 0], [1, 1]]]
    found = measure(probabilities, y, owners, clients=3)
    assert found['auroc'] == found['balanced_accuracy'] == 1.0
    alone = measure(probabilities[:2], y[:2])
    assert np.isnan(alone['auroc']) and alone['balanced_accuracy'] == 1.0     # of the one class that is there


def test_the_spread_over_clients():
    # accuracies 0, 1/2, 1 of clients of 2 targets each: the 10th percentile lies 0.2 of the way from 0 to 1/2
    found = metrics.METRICS['hits'].read(np.array([0.0, 1.0, 2.0]), np.array([2, 2, 2]))
    assert found == pytest.approx({'accuracy': 0.5, 'accuracy_std': np.sqrt(1 / 6), 'accuracy_p10': 0.1,
                                   'accuracy_worst': 0.0})


def test_parts_add_up_to_the_whole():
    """Over chunks that cut through clients, and over machines that have some of the clients each."""
    probabilities, y, generator = random_predictions(2, count=200)
    owners = np.sort(generator.integers(0, 5, 200))
    values = shares(probabilities, y)
    whole = metrics.add_up(values, owners, 5, 2)
    chunks = [metrics.add_up({name: [value[rows] for value in found] for name, found in values.items()}, owners[rows],
                             5, 2) for rows in np.array_split(np.arange(200), 7)]
    for name, sums in whole.items():
        merged = sum(chunk[name] for chunk in chunks)
        # counts are exact, sums of float32 in double precision but for the order of adding
        np.testing.assert_allclose(merged, sums, rtol=1e-14)
        assert name in ('loss', 'squares', 'calibration') or np.array_equal(merged, sums)


def test_targets_of_sequences_count_one_by_one():
    probabilities, y, _ = random_predictions(3, count=12)
    values = shares(probabilities.reshape(4, 3, 3), y.reshape(4, 3))
    for name in ('loss', 'hits', 'squares'):     # the evaluator sums these over an example's targets
        values[name] = [values[name][0].sum(axis=1)]
    owners = np.array([0, 0, 1, 1])
    apart = totals(probabilities, y, np.repeat(owners, 3), 2)
    for name, sums in metrics.add_up(values, owners, 2, 3).items():
        np.testing.assert_allclose(sums, apart[name], rtol=1e-6)
