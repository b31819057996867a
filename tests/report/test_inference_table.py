from virtual_tf.report import inference_table
from virtual_tf.studies.experiments import INFERENCE_CASES, INFERENCE_COLUMNS, inference


def record(accuracy, entropy):
    values = {'server/accuracy': accuracy, 'mt/accuracy': accuracy, 'server/cross_entropy': entropy,
              'mt/cross_entropy': entropy}
    return {'last_5': values, 'max': values, 'caveat': ''}


def test_a_difference_is_paired_and_a_lower_cross_entropy_wins():
    ours = {0: record(0.90, 0.30), 1: record(0.80, 0.40)}
    theirs = {0: record(0.89, 0.35), 1: record(0.79, 0.45), 2: record(0.1, 9.0)}
    records = {('vsn', 'virtual'): ours, ('vsn', 'fedavg'): theirs}
    rows = {row[1]: row for row in inference_table.rows_of(records, 'last_5')}
    # 1 point and −0.05 with every common seed, so the interval has no width; seed 2 has no partner.
    assert rows['S accuracy'][3] == '84.00: +1.00 ± 0.00 won'
    assert rows['MT cross-entropy'][3] == '0.400: -0.050 ± 0.000 won'
    assert rows['S accuracy'][4:] == ['missing'] * 3


def test_two_seeds_that_disagree_decide_nothing():
    records = {('vsn', 'virtual'): {0: record(0.9, 0.3), 1: record(0.8, 0.3)},
               ('vsn', 'fedavg'): {0: record(0.8, 0.3), 1: record(0.9, 0.3)}}
    assert inference_table.rows_of(records, 'max')[0][3].endswith('tied')


def test_tuned_columns_differ_from_the_plain_ones_by_their_epochs_alone():
    for case in INFERENCE_CASES:
        for column in INFERENCE_COLUMNS:
            if column.endswith('-tuned'):
                tuned, plain = (inference(case, name).settings() for name in (column, column.removesuffix('-tuned')))
                assert tuned.replace(fine_tune=0) == plain and tuned.fine_tune == 20
