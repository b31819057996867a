import numpy as np
import pytest
import tensorflow as tf

from virtual_tf.core.client_axis import in_groups, take, ungroup


@pytest.mark.parametrize('per_call', [0, 5, 6])
def test_a_cohort_that_fits_stays_as_it_is(per_call):
    groups = in_groups(np.array([5, 1, 4, 2, 3]), per_call)
    assert len(groups) == 1 and np.array_equal(groups[0], np.arange(5))


def test_groups_hold_clients_of_similar_size_and_the_last_is_filled_up_with_repeats():
    groups = in_groups(np.array([5, 1, 4, 2, 3]), 2)
    # Sizes 5, 4 | 3, 2 | 1 and 1 again: the longest come first, and nobody waits for a repeat.
    assert np.array_equal(groups, [[0, 2], [4, 3], [1, 1]])


@pytest.mark.parametrize('count', range(1, 8))
@pytest.mark.parametrize('per_call', range(8))
def test_what_is_done_in_groups_comes_back_in_the_order_of_the_cohort(count, per_call):
    sizes = np.random.default_rng(count).permutation(count)
    groups = in_groups(sizes, per_call)
    assert len({len(rows) for rows in groups}) == 1, 'one shape, one trace'
    states = {'a': np.arange(2.0 * count).reshape(count, 2), 'b': (tf.range(count),)}
    again = ungroup([take(states, rows) for rows in groups], groups)
    tf.nest.map_structure(np.testing.assert_array_equal, again, states)
