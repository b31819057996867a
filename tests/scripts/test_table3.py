import json

import pytest

from scripts import table3
from scripts.table3 import Row
from virtual_tf.core.settings import make_settings
from virtual_tf.studies import experiments

ROWS = [Row('virtual', 0), Row('virtual', 75), Row('virtual', 90), Row('fedavg_init', 0), Row('error_feedback', 75),
        Row('fedavg'), Row('fedprox')]


def write_run(folder, row, accuracies, bytes_up, seed=0):
    """A run folder as scripts.table3 reads it: two clients a round, one number a parameter of 4 bytes."""
    folder.mkdir(parents=True)
    settings = make_settings(dict(experiments.table3(*row).given) | {
        'clients_per_round': 2, 'rounds': len(accuracies), 'seed': seed})
    protocols = {'max': max(accuracies), 'last_5': sum(accuracies) / len(accuracies)}
    (folder / 'summary.json').write_text(json.dumps(
        {name: {table3.S: value, table3.MT: value} for name, value in protocols.items()}))
    (folder / 'config.json').write_text(json.dumps({'settings': settings.__dict__, 'git_commit': 'abc'}))
    (folder / 'metrics.jsonl').write_text(''.join(json.dumps(
        {'round': i + 1, table3.S: value, table3.MT: value, 'dropped_clients': 0, 'bytes_up': bytes_up,
         'bytes_down': 10_000_000, 'parameters_up': bytes_up // 4}) + '\n' for i, value in enumerate(accuracies)))
    return settings


@pytest.fixture
def root(tmp_path):
    for row in ROWS:
        # Everything reaches 0.8 in the second round, but what is pruned to 90 % never does.
        accuracies = [0.3, 0.4, 0.4] if row.prune == 90 else [0.6, 0.8, 0.9 if row.kind == 'virtual' else 0.7]
        for seed in (0, 1):
            write_run(tmp_path / row.folder(seed), row, accuracies, 8_000_000 * (100 - row.prune) // 100, seed)
    return tmp_path


def test_megabytes_add_up_to_the_first_round_that_reaches_the_target():
    history = [{'bytes_up': 1_000_000, 'bytes_down': 2_000_000, 'a': value} for value in (0.1, None, 0.5, 0.9)]
    assert table3.megabytes_until(history, 'a', 0.5) == (3.0, 9.0)
    assert table3.megabytes_until(history, 'a', 0.95) is None


def test_results_of_run_folders(root):
    table = table3.results(ROWS, [0, 1], root)
    full, pruned, collapsed = (table[Row('virtual', percent)] for percent in (0, 75, 90))
    assert full['max S'] == [90.0, 90.0] and full['parameters'] == [1_000_000.0] * 2
    assert full['bytes'] == [4_000_000.0] * 2
    # FedAvg's last rounds have 0.7 on average, which everything but 90 % reaches in round 2: 2·(8 or 2) MB.
    assert full['MB up to S'] == [16.0, 16.0] and pruned['MB up to S'] == [4.0, 4.0]
    assert pruned['MB total to MT'] == [24.0, 24.0]
    assert collapsed['MB up to S'] == [None, None]


def test_the_table_and_the_verdicts(root):
    table = table3.results(ROWS, [0, 1], root)
    text = table3.markdown(table, [0, 1], 'toys')
    assert '| VIRTUAL | 75 % | 250,000 | 40,000 | 1000.0 | 90.00 ± 0.00 |' in text and '| 90.8 / 94.9 |' in text
    assert '| VIRTUAL | 90 % | never | never | never | never |' in text
    assert '| FedProx | 0 % |' in text and '| 89.9 / 94.5 |' in text
    claims = table3.claims(table)
    assert 'costs VIRTUAL 0.00 points of max MT (at most 1.5: yes)' in claims
    assert 'max S +10.00 (yes)' in claims
    # 2 MB of 8 MB
    assert '0.25 of the bytes of FedProx\'s (the paper: half; yes)' in claims
    assert 'collapses at 90 %. Here it loses 50.00 points of max S' in claims


def test_the_latex_has_the_same_rows(root):
    header, rows = table3.accuracies(table3.results(ROWS, [0, 1], root))
    assert len(rows) == len(ROWS) and {len(row) for row in rows} == {len(header)}


def test_what_the_paper_has_no_row_for():
    assert Row('error_feedback', 75).published() is None and Row('fedprox').published() == (89.9, 94.5)
