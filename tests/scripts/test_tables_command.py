import dataclasses
import json
import pathlib
import subprocess
import sys
import types

import pytest

from scripts import tables
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.simulator import rounds
from virtual_tf.studies import experiments
from virtual_tf.studies.workers import Job

ROOT = pathlib.Path(__file__).parent.parent.parent


def write_run(root, each, seed, server, mt, clients=10):
    job = Job(each.folder(seed), each.settings(seed))
    folder = root / job.name
    folder.mkdir(parents=True)
    numbers = {tables.S: server, tables.MT: mt}
    (folder / 'config.json').write_text(json.dumps(
        {'settings': job.settings.__dict__, 'data': {'caveat': 'made up', 'clients': clients}, 'git_commit': 'abc'}))
    (folder / 'summary.json').write_text(json.dumps(
        {'max': numbers, 'final': numbers, 'last_5': numbers, 'rounds': job.settings.rounds, 'seconds': 1.0}))
    return job


@pytest.fixture
def groups(tmp_path):
    """MNIST with two of three seeds of VIRTUAL and none of FedAvg."""
    virtual, fedavg = (experiments.table2('mnist', column) for column in ('virtual', 'fedavg'))
    jobs = {seed: write_run(tmp_path, virtual, seed, 0.97 + 0.01 * seed, 0.96) for seed in (0, 1)}
    jobs[2] = Job(virtual.folder(2), virtual.settings(2))
    return {('mnist', 'virtual'): jobs, ('mnist', 'fedavg'): {0: Job(fedavg.folder(0), fedavg.settings(0))}}


def test_what_is_finished_and_what_is_missing(groups, tmp_path):
    records, missing = tables.collect(groups, tmp_path, {})
    assert list(records['mnist', 'virtual']) == [0, 1] and ('mnist', 'fedavg') not in records
    assert missing == {('mnist', 'virtual'): [2], ('mnist', 'fedavg'): [0]}


def test_a_row_has_ours_the_paper_s_and_the_difference(groups, tmp_path):
    row, = tables.rows_of(2, tables.collect(groups, tmp_path, {})[0])
    names = ('data', 'rounds', 'method', 'S', 'paper S', 'S difference', 'MT', 'paper MT', 'MT difference')
    line = dict(zip(names, row))
    # S: mean of 97 and 98, Student's t of one degree of freedom 12.706, half the difference 0.5
    assert line['S'] == '97.50 ± 6.35' and line['paper S'] == '97.8' and line['S difference'] == '-0.30'
    assert line['MT'] == '96.00 ± 0.00' and line['MT difference'] == '-1.40' and row[-1] == '2'


def test_other_protocols_have_the_last_round_and_what_held_out_data_chose(groups, tmp_path):
    records, _ = tables.collect(groups, tmp_path, {})
    header, (line,) = tables.other_protocols(records)
    assert header == ('data', 'method', 'S final', 'MT final')
    assert line == ['`mnist`', 'VIRTUAL', '97.50 ± 6.35', '96.00 ± 0.00']     # as in the row above
    # one of two seeds held data out
    records['mnist', 'virtual'][1]['val'] = {tables.S: 0.9, tables.MT: 0.8}
    header, (line,) = tables.other_protocols(records)
    assert header[4:] == ('S val', 'MT val') and line[4:] == ['90.00', '80.00']


def test_the_table_names_the_commands_for_what_is_missing(groups, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, 'groups_of', lambda table, values: groups)
    values = types.SimpleNamespace(run=False, data_dir='DATA', output_dir='runs')
    _, notes, summaries = tables.table_of_runs(2, values, tmp_path, {})
    assert ('- missing on `mnist`: VIRTUAL (seeds 2); FedAvg (seeds 0): `python -m scripts.sweep '
            '--study=table2/mnist/virtual,table2/mnist/fedavg --data_dir=DATA --output_dir=runs --seed=0,2`') in notes
    assert any('made up' in note for note in notes) and list(summaries) == ['mnist/virtual']
    values.validation_fraction = 0.2
    assert tables.command(['kl'], values).endswith('--study=kl --data_dir=DATA --output_dir=runs '
                                                   '--validation_fraction=0.2')
    with pytest.raises(VirtualTfError, match='--run makes them'):
        tables.table_of_runs(2, values, tmp_path / 'empty', {})


def start(*arguments):
    return subprocess.run([sys.executable, '-m', 'scripts.tables', '--table=2', *arguments], cwd=ROOT, text=True,
                          capture_output=True)


def test_the_command_writes_what_there_is_and_says_what_is_missing(tmp_path):
    each = experiments.table2('mnist', 'virtual')
    # the clients of seed 1 that 60 rounds leave out are counted as the simulation selects them
    write_run(tmp_path / 'runs', each, 1, 0.97, 0.96, clients=100)
    done = start(f'--output_dir={tmp_path}/runs', f'--results_dir={tmp_path}/results')
    assert done.returncode == 0, done.stderr
    text = (tmp_path / 'results' / 'table2.md').read_text(encoding='utf-8')
    assert text in done.stdout
    assert '| `mnist` | 60 | VIRTUAL | 97.00 | 97.8 | -0.80 | 96.00 | 97.4 | -1.40 | 97.00 | 96.00 | 1 |' in text
    assert '| `mnist` | – | FedAvg | missing | 97.6 | – | missing | 96.9 | – | – | – | 0 |' in text
    visited = set().union(*(rounds.select(100, 10, 1, number).tolist() for number in range(1, 61)))
    assert f'- `mnist`: never selected, so in MT with the initial model: {100 - len(visited)} with seed 1' in text
    latex = (tmp_path / 'results' / 'table2.tex').read_text(encoding='utf-8')
    assert '97.00 & 97.8 & -0.80' in latex and '% - `mnist`: made up' in latex
    kept = json.loads((tmp_path / 'results' / 'table2.json').read_text(encoding='utf-8'))
    assert kept['mnist/virtual']['1']['settings'] == dataclasses.asdict(each.settings(1))
    # and again without the folder
    assert text == start(f'--output_dir={tmp_path}/gone', f'--results_dir={tmp_path}/results').stdout.partition(
        '\nwritten: ')[0].replace(f'{tmp_path}/gone', f'{tmp_path}/runs')


@pytest.mark.parametrize('argument, said', [('--study=kl', 'study is for scripts.sweep'),
                                            ('--rounds=3', 'add --results_dir')])
def test_flags_that_would_spoil_the_table_are_refused(argument, said):
    done = start(argument)
    assert done.returncode == 2 and said in done.stderr and 'Traceback' not in done.stderr


def test_only_what_is_missing_is_made(groups, tmp_path, monkeypatch):
    played = []
    monkeypatch.setattr(tables, 'groups_of', lambda table, values: groups)
    monkeypatch.setattr(tables.sweep, 'play', lambda jobs, values, root: played.extend(jobs))
    tables.table_of_runs(2, types.SimpleNamespace(run=True, data_dir='DATA', output_dir='runs'), tmp_path, {})
    assert played == [groups['mnist', 'virtual'][2], groups['mnist', 'fedavg'][0]]


def test_seeds_that_nobody_asked_for_stay(groups, tmp_path):
    records, _ = tables.collect(groups, tmp_path, {})
    settings = experiments.table2('mnist', 'virtual').settings(7)
    other = {'settings': dataclasses.asdict(settings)}
    outdated = {'settings': other['settings'] | {'seed': 8, 'client_lr': 0.123}}
    kept = {'mnist/virtual': {'0': 'old', '2': 'outdated', '7': other, '8': outdated}, 'gone/virtual': {'0': 'old'}}
    assert tables.merged(records, groups, kept) == {'mnist/virtual': {
        '0': records['mnist', 'virtual'][0], '1': records['mnist', 'virtual'][1], '7': other}}


def test_a_folder_with_other_settings_is_missing_and_named(groups, tmp_path, caplog):
    path = tmp_path / groups['mnist', 'virtual'][0].name / 'config.json'
    config = json.loads(path.read_text())
    config['settings']['client_lr'] *= 2
    path.write_text(json.dumps(config))
    records, missing = tables.collect(groups, tmp_path, {})
    assert list(records['mnist', 'virtual']) == [1] and missing['mnist', 'virtual'] == [0, 2]
    assert 'client_lr' in caplog.text and str(path.parent) in caplog.text


def test_a_summary_stands_for_a_run_whose_folder_is_gone_if_it_had_the_same_settings(groups, tmp_path):
    _, _, job = groups['mnist', 'virtual'].values()
    written = tables.record_of(write_run(tmp_path / 'elsewhere', experiments.table2('mnist', 'virtual'), 2, 0.5, 0.4),
                               tmp_path / 'elsewhere')
    kept = {'mnist/virtual': {'2': written, '0': written}}
    records, missing = tables.collect(groups, tmp_path, kept)
    assert records['mnist', 'virtual'][2] == written and ('mnist', 'virtual') not in missing
    assert records['mnist', 'virtual'][0]['max'][tables.S] == 0.97     # a folder comes first
    written['settings']['client_lr'] *= 2
    assert 2 not in tables.collect(groups, tmp_path, kept)[0]['mnist', 'virtual']
    written['settings']['client_lr'] /= 2
    written['settings']['rounds'] = job.settings.rounds + 1
    assert 2 not in tables.collect(groups, tmp_path, kept)[0]['mnist', 'virtual']
