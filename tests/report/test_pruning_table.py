import math

import pytest
import stored_runs

from virtual_tf.core import strict_json
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.methods.registry import make_settings
from virtual_tf.report import pruning_table, text_tables
from virtual_tf.report.pruning_table import Row
from virtual_tf.report.sources import Source
from virtual_tf.runs.summary import MT, S
from virtual_tf.studies import experiments, grids

ROWS = [Row('virtual', 0), Row('virtual', 75), Row('virtual', 90), Row('fedavg_init', 0), Row('error_feedback', 75),
        Row('fedavg'), Row('fedprox')]


def write_run(root, row, accuracies, bytes_up, seed=0):
    """A run of two clients a round, one number a parameter of 4 bytes."""
    settings = make_settings(dict(experiments.table3(*row).given) | {
        'clients_per_round': 2, 'rounds': len(accuracies), 'seed': seed})
    protocols = {'max': max(accuracies), 'last_5': sum(accuracies) / len(accuracies)}
    stored_runs.write(
        root / row.folder(seed), settings,
        [{S: value, MT: value, 'dropped_clients': 0, 'bytes_up': bytes_up, 'bytes_down': 10_000_000,
          'parameters_up': bytes_up // 4} for value in accuracies],
        summary={name: {S: value, MT: value} for name, value in protocols.items()})


@pytest.fixture
def root(tmp_path):
    for row in ROWS:
        # Everything reaches 0.8 in the second round, but what is pruned to 90 % never does.
        accuracies = [0.3, 0.4, 0.4] if row.prune == 90 else [0.6, 0.8, 0.9 if row.kind == 'virtual' else 0.7]
        for seed in (0, 1):
            write_run(tmp_path, row, accuracies, 8_000_000 * (100 - row.prune) // 100, seed)
    return tmp_path


def test_megabytes_add_up_to_the_first_round_that_reaches_the_target():
    history = [{'bytes_up': 1_000_000, 'bytes_down': 2_000_000, 'a': value} for value in (0.1, math.nan, 0.5, 0.9)]
    assert pruning_table.megabytes_until(history, 'a', 0.5) == (3.0, 9.0)
    assert pruning_table.megabytes_until(history, 'a', 0.95) is None


def test_results_of_run_folders(root):
    table = pruning_table.results(ROWS, [0, 1], root)
    full, pruned, collapsed = (table[Row('virtual', percent)] for percent in (0, 75, 90))
    assert full['max S'] == [90.0, 90.0] and full['parameters'] == [1_000_000.0] * 2
    assert full['bytes'] == [4_000_000.0] * 2
    # FedAvg's last rounds have 0.7 on average, which everything but 90 % reaches in round 2: 2·(8 or 2) MB.
    assert full['MB up to S'] == [16.0, 16.0] and pruned['MB up to S'] == [4.0, 4.0]
    assert pruned['MB total to MT'] == [24.0, 24.0]
    assert collapsed['MB up to S'] == [None, None]


def test_the_table_and_the_verdicts(root):
    table = pruning_table.results(ROWS, [0, 1], root)
    text = pruning_table.markdown(table, [0, 1], 'toys')
    assert '| VIRTUAL | 75 % | 250,000 | 40,000 | 1000.0 | 90.00 ± 0.00 |' in text and '| 90.8 / 94.9 |' in text
    assert '| VIRTUAL | 90 % | never | never | never | never |' in text
    assert '| FedProx | 0 % |' in text and '| 89.9 / 94.5 |' in text
    claims = pruning_table.claims(table)
    assert 'costs VIRTUAL 0.00 points of max MT (at most 1.5: yes)' in claims
    assert 'max S +10.00 (yes)' in claims
    # 2 MB of 8 MB
    assert '0.25 of the bytes of FedProx\'s (the paper: half; yes)' in claims
    assert 'collapses at 90 %. Here it loses 50.00 points of max S' in claims


def test_the_latex_has_the_same_rows(root):
    header, rows = pruning_table.accuracies(pruning_table.results(ROWS, [0, 1], root))
    lines = text_tables.latex(header, rows).splitlines()
    body = [line.removesuffix(r' \\').split(' & ') for line in lines if line.endswith(r' \\')]
    assert len(body) == 1 + len(ROWS) and {len(cells) for cells in body} == {len(header)}
    assert body[0][0] == 'method' and body[2][:3] == ['VIRTUAL', r'75 \%', '250,000']
    assert body[2][5] == r'90.00 $\pm$ 0.00' and body[5][3] == '--'     # the paper has no error feedback


def groups(**given):
    return grids.of_studies(['table3'], {'clients_per_round': 2, 'rounds': 3} | given, [0, 1])


def test_the_files_have_the_rows_that_are_finished_and_name_the_rest(root, tmp_path):
    given = {'clients_per_round': 2, 'rounds': 3}
    text = pruning_table.write(tmp_path, groups(), Source(root, given=given))
    assert text == (tmp_path / 'table3.md').read_text(encoding='utf-8')
    assert text.splitlines()[0] == (
        '# Table 3 on writers, 3 rounds, in the place of FEMNIST, with clients_per_round = 2, rounds = 3')
    absent = [f'table3/{kind}-{prune}' for kind, prune in experiments.TABLE_3_ROWS if Row(kind, prune) not in ROWS]
    assert (f'- missing: {", ".join(absent)}: `python -m scripts.sweep --study={",".join(absent)} --output_dir={root} '
            '--clients_per_round=2 --rounds=3`') in text
    assert (tmp_path / 'table3.tex').read_text(encoding='utf-8').count(r' \\') == 1 + len(ROWS)
    stored = strict_json.read(tmp_path / 'table3.json')
    assert [Row(row['kind'], row['prune']) for row in stored['rows']] == ROWS and stored['seeds'] == [0, 1]
    assert {row['settings']['clients_per_round'] for row in stored['rows']} == {2}


def test_a_table_without_its_baselines_is_refused(root, tmp_path):
    with pytest.raises(VirtualTfError, match='lacks the baselines'):
        pruning_table.write(tmp_path, groups(epochs=3), Source(root))


def test_what_the_paper_has_no_row_for():
    assert Row('error_feedback', 75).published() is None and Row('fedprox').published() == (89.9, 94.5)
