import numpy as np
import pytest

from virtual_tf.runs.summary import S, largest_fall


@pytest.mark.parametrize('scores, expected', [
    ([0.9, 0.1, *[0.5] * 8, 0.6, 0.55, 0.56], 5.0),        # what the first ten rounds cost is no fall
    ([0.9, 0.1, *[0.5] * 8], 0.0),
    ([*[0.5] * 10, 0.6, 0.7], 0.0),
    ([*[0.5] * 10, 0.6, None, np.nan, 0.57], 3.0),          # over rounds without a number
])
def test_the_largest_fall_is_that_of_a_round_after_the_tenth(scores, expected):
    assert largest_fall([{S: score} for score in scores]) == pytest.approx(expected)
    assert largest_fall([{} for _ in scores]) == 0.0, 'a method without S'
