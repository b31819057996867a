"""The tables as a user starts the command."""
import pathlib
import subprocess
import sys
import types

import pytest
import stored_runs

from scripts import tables
from virtual_tf.core import strict_json
from virtual_tf.core.errors import RunError, VirtualTfError
from virtual_tf.report import precision_table, results_page
from virtual_tf.runs.summary import MT, S
from virtual_tf.simulator import rounds
from virtual_tf.studies import convergence, experiments

ROOT = pathlib.Path(__file__).parent.parent.parent


def start(*arguments, cwd=ROOT):
    return subprocess.run([sys.executable, '-m', 'scripts.tables', *arguments], cwd=cwd, text=True, capture_output=True)


def write_run(root, each, seed, server, mt):
    numbers = {S: server, MT: mt}
    summary = {'max': numbers, 'final': numbers, 'last_5': numbers, 'rounds': each.settings().rounds, 'seconds': 1.0}
    stored_runs.write_seeds(root, each, {seed: [numbers]}, summary=summary, data={'caveat': 'made up', 'clients': 100})


def test_the_command_writes_what_there_is_and_says_what_is_missing(tmp_path):
    each = experiments.table2('mnist', 'virtual')
    write_run(tmp_path / 'runs', each, 1, 0.97, 0.96)
    done = start('--table=2', f'--output_dir={tmp_path}/runs', f'--results_dir={tmp_path}/results')
    assert done.returncode == 0, done.stderr
    text = (tmp_path / 'results' / 'table2.md').read_text(encoding='utf-8')
    assert text in done.stdout
    assert '| `mnist` | 60 | VIRTUAL | 97.00 | 97.8 | -0.80 | 96.00 | 97.4 | -1.40 | 97.00 | 96.00 | 1 |' in text
    assert '| `mnist` | – | FedAvg | missing | 97.6 | – | missing | 96.9 | – | – | – | 0 |' in text
    # the clients of seed 1 that 60 rounds leave out are counted as the simulation selects them
    visited = set().union(*(rounds.select(100, 10, 1, number).tolist() for number in range(1, 61)))
    assert f'- `mnist`: never selected, so in MT with the initial model: {100 - len(visited)} with seed 1' in text
    latex = (tmp_path / 'results' / 'table2.tex').read_text(encoding='utf-8')
    assert '97.00 & 97.8 & -0.80' in latex and '% - `mnist`: made up' in latex
    kept = strict_json.read(tmp_path / 'results' / 'table2.json')
    assert kept['mnist/virtual']['1']['settings'] == each.settings(1).to_dict()


@pytest.mark.parametrize('arguments, said', [
    (['--table=2', '--study=kl'], 'study is for scripts.sweep'), (['--table=2', '--rounds=3'], 'add --results_dir'),
    ([], 'table must be'), (['--all'], 'add --run')])
def test_flags_that_would_spoil_the_table_are_refused(arguments, said):
    done = start(*arguments)
    assert done.returncode == 2 and said in done.stderr and 'Traceback' not in done.stderr


@pytest.mark.parametrize('table', ['2', '3', 'inference'])
def test_too_little_for_a_table_does_not_stop_what_is_played(table, tmp_path, monkeypatch):
    monkeypatch.setattr(tables.run, 'given_settings', lambda values: {})
    monkeypatch.setattr(tables.sweep, 'seeds_of', lambda values: None)
    ended = []
    monkeypatch.setattr(tables.sweep, 'play', lambda jobs, values, root, on_ended: (on_ended(), ended.append(True)))
    with pytest.raises(VirtualTfError):     # at the end it is told
        tables.write_table(table, types.SimpleNamespace(run=True, data_dir='DATA', output_dir=str(tmp_path)), tmp_path)
    assert ended == [True]


def test_of_runs_that_fail_the_others_are_kept_and_further_tables_are_made(tmp_path, monkeypatch):
    written = []

    def fail(jobs, values, root, on_ended):
        raise RunError('1 of 2 runs failed')
    monkeypatch.setattr(tables.run, 'given_settings', lambda values: {})
    monkeypatch.setattr(tables.sweep, 'seeds_of', lambda values: None)
    monkeypatch.setattr(tables.sweep, 'play', fail)
    monkeypatch.setattr(tables, '_write', lambda table, *_: written.append(table))
    values = types.SimpleNamespace(run=True, data_dir='DATA', output_dir=str(tmp_path))
    with pytest.raises(RunError):
        tables.write_table('2', values, tmp_path)
    assert written == ['2']
    monkeypatch.setattr(tables, 'in_order_of_cost', lambda *_: ['2', '3'])
    monkeypatch.setattr(tables, 'write_docs', lambda _: written.append('docs'))
    monkeypatch.setattr(tables, 'check_flags', lambda _: None)
    monkeypatch.setattr(tables.run, 'load_plugins', lambda _: None)
    monkeypatch.setattr(tables.flags, 'FLAGS', types.SimpleNamespace(
        all=True, docs=False, results_dir=str(tmp_path), **vars(values)))
    with pytest.raises(RunError, match='table2: 1 of 2 runs failed; table3: 1 of 2'):
        tables.main([])
    assert written == ['2', '2', '3', 'docs']


def test_only_what_is_missing_is_made(tmp_path, monkeypatch):
    each, played = experiments.table2('mnist', 'virtual'), []
    write_run(tmp_path, each, 1, 0.97, 0.96)
    monkeypatch.setattr(tables.run, 'given_settings', lambda values: {})
    monkeypatch.setattr(tables.sweep, 'seeds_of', lambda values: [0, 1])
    monkeypatch.setattr(tables.sweep, 'play', lambda jobs, values, root, on_ended: played.extend(jobs))
    tables.write_table('2', types.SimpleNamespace(run=True, data_dir='DATA', output_dir=str(tmp_path)), tmp_path)
    names = {job.name for job in played}
    assert each.folder(0) in names and each.folder(1) not in names
    assert experiments.table2('mnist', 'fedavg').folder(1) in names


def test_all_tables_come_in_the_order_of_what_they_lack(tmp_path, monkeypatch, capsys):
    values = types.SimpleNamespace(run=True, data_dir='DATA', output_dir=str(tmp_path), processes=2)
    monkeypatch.setattr(tables.run, 'given_settings', lambda values: {})
    monkeypatch.setattr(tables.sweep, 'seeds_of', lambda values: None)
    monkeypatch.setattr(tables.costs, 'estimates', lambda jobs, *_: dict.fromkeys(jobs, 120.0))
    kept = {'/'.join(key): {str(seed): {'settings': job.settings.to_dict()} for seed, job in of_seeds.items()}
            for key, of_seeds in precision_table.jobs_of({}).items()}
    kept['sgd/90'].pop('2')
    strict_json.write(tmp_path / 'pruning.json', kept)
    # One study has no case that was swept, so nothing to play.
    monkeypatch.setattr(convergence, 'CHOSEN', {})
    order = tables.in_order_of_cost(values, tmp_path)
    # The data has no runs, the study of pruning lacks one of its 18, the others all of theirs.
    assert order[:2] == ['1', 'pruning'] and {*order} == {*tables.TABLES} - {'convergence'}
    assert 'pruning: 1 runs are missing, which take about 60 s' in capsys.readouterr().out


def test_the_documents_are_made_from_the_results(tmp_path):
    (tmp_path / 'docs').mkdir()
    (tmp_path / 'docs' / 'results-remarks.md').write_text('## In short\n\nA remark.\n', encoding='utf-8')
    (tmp_path / 'README.md').write_text(f'a\n{results_page.START}\nold\n{results_page.END}\nb\n', encoding='utf-8')
    (tmp_path / 'scripts').symlink_to(ROOT / 'scripts')
    (tmp_path / 'virtual_tf').symlink_to(ROOT / 'virtual_tf')
    done = start('--docs', f'--results_dir={ROOT}/results', cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    digest = results_page.digest(ROOT / 'results')
    readme = (tmp_path / 'README.md').read_text(encoding='utf-8')
    assert readme == f'a\n{results_page.START}\n{digest}{results_page.END}\nb\n'
    page = (tmp_path / 'docs' / 'results.md').read_text(encoding='utf-8')
    assert digest.strip('\n') in page and 'A remark.' in page
    (tmp_path / 'README.md').unlink()
    done = start('--docs', f'--results_dir={ROOT}/results', cwd=tmp_path)
    assert done.returncode == 2 and 'there is no README.md here' in done.stderr
