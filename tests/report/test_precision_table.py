import numpy as np
import pytest

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.report import precision_table
from virtual_tf.report.sources import Source
from virtual_tf.runs import snr
from virtual_tf.studies.experiments import pruning


def record(accuracy, entropy, below):
    values = {'server/accuracy': accuracy, 'mt/accuracy': accuracy + 0.01, 'server/cross_entropy': entropy}
    return {'last_5': values, 'max': values, 'below_one': below, 'kilobytes': 100.0}


def test_a_row_has_the_means_over_its_seeds():
    rows = precision_table.rows_of({('sgd', '75'): {0: record(0.90, 0.4, 10.0), 1: record(0.90, 0.4, 10.0)}})
    assert rows == [('sgd', '75 %', '90.00 ± 0.00', '91.00 ± 0.00', '90.00 ± 0.00', '91.00 ± 0.00', '0.400 ± 0.000',
                     '10.0 ± 0.0', '100.0 ± 0.0', '2')]


def test_the_share_below_one_is_that_of_all_weights():
    # Of 4 weights of one layer and 2 of another, three have an SNR below 1.
    counts = {'a': snr.count_below(np.array([0.5, 0.1, 2.0, 30.0])), 'b': snr.count_below(np.array([0.9, 1.5]))}
    assert snr.percent_below_one(counts) == 50.0


def test_the_two_updates_differ_in_nothing_but_the_update_and_its_weight():
    natural, sgd = (pruning(name, 75).settings() for name in ('natural', 'sgd'))
    assert natural.replace(precision_update='sgd', kl_weight=1e-5) == sgd and natural.prune == 75


def test_without_runs_it_says_how_to_make_them(tmp_path):
    with pytest.raises(VirtualTfError, match='--run makes them all'):
        precision_table.write(tmp_path, precision_table.jobs_of({}), Source(tmp_path, 'data', {}))
