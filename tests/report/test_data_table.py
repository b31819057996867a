import dataclasses

import numpy as np
from toys import make_dataset

from virtual_tf.data.federated import Split
from virtual_tf.report import data_table


def test_a_sequence_has_one_character_more_than_targets():
    x = np.zeros([3, 4])
    split = Split.of([(x[:2], np.array([[0, 1, 2, 0], [1, 1, -1, -1]])), (x[2:], np.array([[2, 2, 2, -1]]))])
    assert data_table.sizes(split).tolist() == [4 + 1 + 2 + 1, 3 + 1]
    assert data_table.sizes(make_dataset(sizes=(9, 5)).train).tolist() == [9, 5]


def test_table_1_has_ours_beside_the_papers_and_says_what_is_missing():
    toy = dataclasses.replace(make_dataset(sizes=(9, 5)), caveat='a toy')
    parts, notes = data_table.table_of_data({'mnist': toy, 'mine': make_dataset(sizes=(4, 4))}, {'har': 'by hand'})
    (header, (mnist, mine)), = parts
    # 9 and 5 examples: 14, mean 7, deviation 2; half as many to test, 4 and 2
    assert mnist == ['`mnist`', '2', '100', '14', '60,000', '7', '600', '2', '0', '6'] and len(header) == len(mnist)
    assert mine == ['`mine`', '2', '–', '8', '–', '4', '–', '0', '–', '4']
    assert notes == ['- `mnist`: a toy', '- missing: `har`: by hand']


def test_what_cannot_be_loaded_says_why(tmp_path):
    found, missing = data_table.load(tmp_path, ['watch', 'har'], download=False)
    assert list(found) == ['watch'] and list(missing) == ['har'] and 'by hand' in missing['har']
    assert data_table.remarks('watch', found['watch']).endswith(data_table.NOTES['watch'])
