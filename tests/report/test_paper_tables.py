import pytest
import stored_runs

from virtual_tf.core import strict_json
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.report import paper_tables
from virtual_tf.report.sources import Source
from virtual_tf.runs.summary import MT, S
from virtual_tf.studies import experiments
from virtual_tf.studies.workers import Job


def write_run(root, each, seed, server, mt, clients=10):
    job, numbers = Job(each.folder(seed), each.settings(seed)), {S: server, MT: mt}
    summary = {'max': numbers, 'final': numbers, 'last_5': numbers, 'rounds': job.settings.rounds, 'seconds': 1.0}
    stored_runs.write(root / job.name, job.settings, [numbers], summary, {'caveat': 'made up', 'clients': clients})
    return job


@pytest.fixture
def jobs(tmp_path):
    """MNIST with two of three seeds of VIRTUAL and none of FedAvg."""
    virtual, fedavg = (experiments.table2('mnist', column) for column in ('virtual', 'fedavg'))
    of_virtual = {seed: write_run(tmp_path, virtual, seed, 0.97 + 0.01 * seed, 0.96) for seed in (0, 1)}
    of_virtual[2] = Job(virtual.folder(2), virtual.settings(2))
    return {('mnist', 'virtual'): of_virtual, ('mnist', 'fedavg'): {0: Job(fedavg.folder(0), fedavg.settings(0))}}


def test_what_is_finished_and_what_is_missing(jobs, tmp_path):
    records, missing = paper_tables.collect(jobs, tmp_path, {})
    assert list(records['mnist', 'virtual']) == [0, 1] and ('mnist', 'fedavg') not in records
    assert missing == {('mnist', 'virtual'): [2], ('mnist', 'fedavg'): [0]}


def test_a_row_has_ours_the_paper_s_and_the_difference(jobs, tmp_path):
    row, = paper_tables.rows_of(2, paper_tables.collect(jobs, tmp_path, {})[0])
    names = ('data', 'rounds', 'method', 'S', 'paper S', 'S difference', 'MT', 'paper MT', 'MT difference')
    line = dict(zip(names, row))
    # S: mean of 97 and 98, Student's t of one degree of freedom 12.706, half the difference 0.5
    assert line['S'] == '97.50 ± 6.35' and line['paper S'] == '97.8' and line['S difference'] == '-0.30'
    assert line['MT'] == '96.00 ± 0.00' and line['MT difference'] == '-1.40' and row[-1] == '2'


def test_other_protocols_have_the_last_round_and_what_held_out_data_chose(jobs, tmp_path):
    records, _ = paper_tables.collect(jobs, tmp_path, {})
    header, (line,) = paper_tables.other_protocols(records)
    assert header == ('data', 'method', 'S final', 'MT final')
    assert line == ['`mnist`', 'VIRTUAL', '97.50 ± 6.35', '96.00 ± 0.00']     # as in the row above
    # one of two seeds held data out
    records['mnist', 'virtual'][1]['val'] = {S: 0.9, MT: 0.8}
    header, (line,) = paper_tables.other_protocols(records)
    assert header[4:] == ('S val', 'MT val') and line[4:] == ['90.00', '80.00']


def test_the_table_names_the_commands_for_what_is_missing(jobs, tmp_path):
    _, notes, summaries = paper_tables.table_of_runs(2, jobs, Source(tmp_path, 'DATA'), {})
    assert ('- missing on `mnist`: VIRTUAL (seeds 2); FedAvg (seeds 0): `python -m scripts.sweep '
            f'--study=table2/mnist/virtual,table2/mnist/fedavg --data_dir=DATA --output_dir={tmp_path} '
            '--seed=0,2`') in notes
    assert any('made up' in note for note in notes) and list(summaries) == ['mnist/virtual']
    with pytest.raises(VirtualTfError, match='--run makes them'):
        paper_tables.table_of_runs(2, jobs, Source(tmp_path / 'empty'), {})


def test_a_table_says_what_was_given_beside_the_chosen_values(jobs, tmp_path):
    _, notes, _ = paper_tables.table_of_runs(2, jobs, Source(tmp_path), {})
    assert any(note.endswith('`results/sweeps`; all else as in `virtual_tf/studies/experiments.py`:') for note in notes)
    given = {'validation_fraction': 0.2, 'rounds': 3}
    _, notes, _ = paper_tables.table_of_runs(2, jobs, Source(tmp_path, given=given), {})
    assert any('; given were validation_fraction = 0.2, rounds = 3; all else as in `' in note for note in notes)
    assert notes[-1].endswith('--validation_fraction=0.2 --rounds=3 --seed=0,2`')


def test_the_jobs_of_a_table_are_in_its_order_and_have_what_is_given():
    found = paper_tables.jobs_of(4, {'rounds': 3}, [1])
    assert list(found) == [(case, column) for case in ('writers', 'writers-conv') for column in experiments.COMPARED]
    assert {job.settings.rounds for of_seeds in found.values() for job in of_seeds.values()} == {3}
    assert {seed for of_seeds in found.values() for seed in of_seeds} == {1}


def test_a_written_table_stands_for_folders_that_are_gone(jobs, tmp_path):
    text = paper_tables.write(tmp_path, 2, jobs, Source(tmp_path))
    again = paper_tables.write(tmp_path, 2, jobs, Source(tmp_path / 'gone'))
    assert again.replace(f'{tmp_path}/gone', str(tmp_path)) == text
    assert (tmp_path / 'table2.tex').exists()


def test_seeds_that_nobody_asked_for_stay(jobs, tmp_path):
    records, _ = paper_tables.collect(jobs, tmp_path, {})
    settings = experiments.table2('mnist', 'virtual').settings(7)
    other = {'settings': settings.to_dict()}
    outdated = {'settings': other['settings'] | {'seed': 8, 'client_lr': 0.123}}
    kept = {'mnist/virtual': {'0': 'old', '2': 'outdated', '7': other, '8': outdated}, 'gone/virtual': {'0': 'old'}}
    assert paper_tables.merged(records, jobs, kept) == {'mnist/virtual': {
        '0': records['mnist', 'virtual'][0], '1': records['mnist', 'virtual'][1], '7': other}}


def test_a_folder_with_other_settings_is_missing_and_named(jobs, tmp_path, caplog):
    path = tmp_path / jobs['mnist', 'virtual'][0].name / 'config.json'
    config = strict_json.read(path)
    config['settings']['client_lr'] *= 2
    strict_json.write(path, config)
    records, missing = paper_tables.collect(jobs, tmp_path, {})
    assert list(records['mnist', 'virtual']) == [1] and missing['mnist', 'virtual'] == [0, 2]
    assert 'client_lr' in caplog.text and str(path.parent) in caplog.text


def test_a_summary_stands_for_a_run_whose_folder_is_gone_if_it_had_the_same_settings(jobs, tmp_path):
    _, _, job = jobs['mnist', 'virtual'].values()
    elsewhere = tmp_path / 'elsewhere'
    written = paper_tables.record_of(
        write_run(elsewhere, experiments.table2('mnist', 'virtual'), 2, 0.5, 0.4), elsewhere)
    kept = {'mnist/virtual': {'2': written, '0': written}}
    records, missing = paper_tables.collect(jobs, tmp_path, kept)
    assert records['mnist', 'virtual'][2] == written and ('mnist', 'virtual') not in missing
    assert records['mnist', 'virtual'][0]['max'][S] == 0.97     # a folder comes first
    written['settings']['client_lr'] *= 2
    assert 2 not in paper_tables.collect(jobs, tmp_path, kept)[0]['mnist', 'virtual']
    written['settings']['client_lr'] /= 2
    written['settings']['rounds'] = job.settings.rounds + 1
    assert 2 not in paper_tables.collect(jobs, tmp_path, kept)[0]['mnist', 'virtual']
