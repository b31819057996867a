import math

import numpy as np
import pytest

from virtual_tf.report import figures
from virtual_tf.runs.folder import Run


@pytest.mark.parametrize('low, high, expected', [
    (0.3, 0.7, [0.4, 0.6]), (0.05, 1.0, [0.05, 0.1, 0.2, 0.5, 1.0]), (0.02, 2.0, [0.03, 0.1, 0.3, 1.0]),
    (1e-4, 0.5, [1e-4, 1e-3, 1e-2, 0.1]), (2e-8, 1.0, [1e-6, 1e-4, 1e-2, 1.0])])
def test_ticks_of_a_log_axis(low, high, expected):
    assert figures.log_ticks(0.999 * low, 1.001 * high) == pytest.approx(expected)


def test_a_log_axis_has_from_two_to_six_ticks():
    generator = np.random.default_rng(0)
    for low, decades in zip(10 ** generator.uniform(-6, 2, 500), generator.uniform(0.05, 8, 500)):
        ticks = figures.log_ticks(low, low * 10 ** decades)
        assert 2 <= len(ticks) <= 6 and low <= min(ticks) and max(ticks) <= low * 10 ** decades


def test_moving_average_by_hand():
    # 1; (1 + 3)/2; (3 + 8)/2; (8 + 0)/2
    assert figures.moving_average(np.array([1.0, 3.0, 8.0, 0.0]), window=2).tolist() == [1.0, 2.0, 5.5, 4.0]
    # Of 1 … 30, round n has the mean of 1 … n up to 20 and of n − 19 … n after.
    n = np.arange(1.0, 31.0)
    assert figures.moving_average(n) == pytest.approx(np.where(n <= 20, (n + 1) / 2, n - 9.5))


def test_a_round_that_is_not_finite_is_a_gap_and_no_more():
    values = np.array([1.0, math.nan, 1.0, 1.0])
    assert np.isnan(figures.moving_average(values, window=2)).tolist() == [False, True, True, False]


def test_binned_means_by_hand():
    sizes, means = figures.binned_means(np.array([100, 1, 10_000, 100]), np.array([1.0, 0.0, 5.0, 2.0]), bins=2)
    # The two smallest are 1 and the first 100: √(1·100) and (0 + 1)/2; then √(100·10⁴) and (2 + 5)/2.
    assert sizes == pytest.approx([10.0, 1000.0]) and means.tolist() == [0.5, 3.5]
    assert len(figures.binned_means(np.array([3]), np.array([1.0]))[0]) == 1


def test_over_seeds_goes_as_far_as_the_shortest():
    runs = [Run({'seed': seed}, {'round': np.arange(1.0, len(values) + 1), 'train/loss': np.array(values)}, {})
            for seed, values in enumerate(([1.0, 2.0, 3.0], [3.0, 6.0]))]
    rounds, mean, low, high = figures.over_seeds(runs, 'train/loss')
    assert (rounds.tolist(), mean.tolist(), low.tolist(), high.tolist()) == ([1, 2], [2, 4], [1, 2], [3, 6])


def test_values_that_nearly_coincide_stand_beside_each_other():
    # Two groups of a span of 10: 0 alone, and 9.8, 10, 9.9, whose mean is 9.9; 0.035 of the span between neighbours.
    places = figures.beside_each_other([9.8, 0.0, 10.0, 9.9])
    assert places == pytest.approx([9.55, 0.0, 10.25, 9.9])
    assert figures.beside_each_other([2.0, 2.0]) == pytest.approx([2.0 - 0.0175, 2.0 + 0.0175])
