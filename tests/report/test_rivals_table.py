"""The table and the picture of the rivals, from made-up runs and records."""
import math

import numpy as np
import pytest
import stored_runs

from virtual_tf.core import strict_json
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.report import rivals_table
from virtual_tf.report.sources import Source
from virtual_tf.runs.summary import MT, S
from virtual_tf.studies import rivals

NO_SERVER = ('local', 'fedper', 'fedrep')


def record(job, accuracy, entropy=0.3, bytes_up=2e6):
    """What is kept of a run whose accuracies are all the same."""
    column = job.name.split('/')[2]
    models = ('mt',) if column in NO_SERVER else ('server', 'mt')
    figures = {f'{model}/{name}': value for model in models for name, value in (
        ('accuracy', accuracy), ('cross_entropy', entropy), ('ece', 0.05), ('accuracy_worst', 0.5))}
    newcomers = {'unseen/20': 0.75} if column in NO_SERVER else {'unseen/0': 0.25, 'unseen/20': 0.75}
    return {'figures': figures | newcomers | {'bytes_up': bytes_up}, 'rounds': 60, 'never_selected': 0,
            'settings': job.settings.to_dict(), 'caveat': 'made up', 'git_commit': 'abc'}


def kept_of(jobs, accuracy=lambda seed: 0.8 + 0.1 * seed, columns=tuple(rivals.COLUMNS)):
    return {f'har/{column}': {str(seed): record(job, accuracy(seed)) for seed, job in jobs['har', column].items()}
            for column in columns}


def cells(text):
    return [[cell.strip() for cell in line.strip('|').split('|')] for line in text.splitlines() if line[:1] == '|']


def test_what_is_kept_of_a_run_has_s_only_where_rounds_change_it(tmp_path):
    jobs = rivals_table.jobs_of({}, seeds=[0])
    numbers = {S: 0.5, 'server/ece': 0.1, MT: 0.75, 'mt/ece': 0.2}
    summary = {'max': numbers, 'final': numbers, 'last_5': numbers, 'rounds': 3, 'seconds': 9.0, 'unseen': {
        epochs: {'means': {'accuracy': level}} for epochs, level in (('0', 0.25), ('20', 0.5))}}
    found = {}
    for column in ('ditto', 'fedper', 'local'):
        job = jobs['har', column][0]
        # Somebody was dropped in the last round.
        stored_runs.write(tmp_path / job.name, job.settings, [{'bytes_up': 3e6}, {'bytes_up': 3e6}, {'bytes_up': 1e6}],
                          summary=summary, data={'clients': 24})
        found[column] = rivals_table.record_of(job, tmp_path)['figures']
    own = {MT: 0.75, 'mt/ece': 0.2, 'unseen/20': 0.5, 'bytes_up': 3e6}
    assert found['ditto'] == own | {S: 0.5, 'server/ece': 0.1, 'unseen/0': 0.25}
    assert found['fedper'] == found['local'] == own


def test_kept_records_make_table_and_picture_and_what_is_missing_has_its_command(tmp_path):
    jobs = rivals_table.jobs_of({}, seeds=[0, 1])
    kept = kept_of(jobs, columns=[column for column in rivals.COLUMNS if column != 'pfedme'])
    strict_json.write(tmp_path / 'rivals.json', kept)
    text = rivals_table.write(tmp_path, jobs, Source(tmp_path / 'runs', 'DATA'))
    lines = cells(text)
    # 80 and 90 %: 85 ± 12.706·5
    level, same = '85.00 ± 63.53', '0.300 ± 0.000'
    mt = [level, same, '5.00 ± 0.00', '50.00 ± 0.00']
    assert ['Ditto', level, same, '5.00 ± 0.00', *mt, '25.00 ± 0.00', '75.00 ± 0.00', '2.00 ± 0.00', '–', '2'] in lines
    assert ['FedRep', '–', '–', '–', *mt, '–', '75.00 ± 0.00', '2.00 ± 0.00', '–', '2'] in lines
    assert ['Ditto', *['+0.00 ± 0.00 tied', '+0.000 ± 0.000 tied'] * 2] in lines
    assert '- `har`: 60 rounds; made up' in text
    assert '- missing: rivals/har/pfedme (seeds 0, 1): `python -m scripts.sweep --study=rivals/har/pfedme' in text
    assert strict_json.read(tmp_path / 'rivals.json') == kept
    for ending in ('md', 'tex', 'json', 'png', 'pdf', 'txt'):
        assert (tmp_path / f'rivals.{ending}').stat().st_size > 0
    with pytest.raises(VirtualTfError, match='--run makes them all'):
        rivals_table.write(tmp_path / 'elsewhere', jobs, Source(tmp_path / 'runs', 'DATA'))


def test_a_lower_cross_entropy_wins_and_pairs_are_of_one_seed():
    jobs = rivals_table.jobs_of({}, seeds=[0, 1, 2])
    # Ditto is 2 points above VIRTUAL with every seed they share, and 0.1 in cross-entropy; FedAvg 1 point below Ditto.
    made = {'virtual': (0.7, 0.4), 'ditto': (0.72, 0.3), 'fedavg': (0.71, 0.3)}
    records = {('har', column): {seed: record(jobs['har', column][seed], accuracy + 0.1 * seed, entropy + 0.1 * seed)
                                 for seed in ((0, 1, 2) if column == 'ditto' else (0, 1))}
               for column, (accuracy, entropy) in made.items()}
    header, lines = rivals_table.differences('har', records)
    assert header == ('MT on `har`', 'accuracy − VIRTUAL', 'cross-entropy − VIRTUAL', 'accuracy − FedAvg',
                      'cross-entropy − FedAvg')
    assert lines[0][:3] == ['VIRTUAL', '–', '–']
    assert lines[2] == ['Ditto', '+2.00 ± 0.00 won', '-0.100 ± 0.000 won', '+1.00 ± 0.00 won', '+0.000 ± 0.000 tied']


def test_a_number_that_is_not_finite_is_a_dash():
    jobs = rivals_table.jobs_of({}, seeds=[0])
    broken = record(jobs['har', 'ditto'][0], 0.8)
    broken['figures'][MT] = None     # as JSON has it
    records = {('har', 'ditto'): {0: broken}, ('har', 'virtual'): {0: record(jobs['har', 'virtual'][0], 0.8)}}
    assert rivals_table.of_case('har', records, {})[1][1][4] == '–'
    assert rivals_table.differences('har', records)[1][1][1:3] == ['–', '+0.000 one seed']
    assert math.isnan(rivals_table.values_of({0: {'figures': {MT: math.nan}}}, MT)[0])


def test_times_are_those_of_the_bench_over_fedavg_s(tmp_path):
    jobs = rivals_table.jobs_of({}, seeds=[0])
    strict_json.write(tmp_path / 'rivals.json', kept_of(jobs, columns=('fedavg', 'ditto', 'virtual', 'pfedbayes')))
    medians = {'fedavg': 50.0, 'ditto': 110.0, 'virtual': 200.0, 'pfedbayes': 260.0}
    measured = {name: {'median': value} for name, value in medians.items()}
    strict_json.write(tmp_path / 'bench.json', {'rivals': {
        'microseconds': {'step': measured, 'round': measured}, 'definitions': {
            'ditto': {'of': 'fedavg', 'times': 2, 'measured': 2.2, 'holds': True},
            'pfedbayes': {'of': 'virtual', 'times': 2, 'measured': 1.3, 'holds': False}}}})
    lines = cells(rivals_table.write(tmp_path, jobs, Source(tmp_path / 'runs')))
    assert {line[0]: line[-2] for line in lines if len(line) == 13 and line[0] != '`har`' and '-' not in line[0]} == {
        'FedAvg': '1.00', 'Ditto': '2.20', 'VIRTUAL': '4.00', 'pFedBayes': '5.20'}
    assert ['Ditto', '110', '2.20', '–', '2 of FedAvg', 'yes'] in lines
    assert ['pFedBayes', '260', '5.20', '1.30', '2 of VIRTUAL', 'no'] in lines
    assert ['FedAvg', '50', '1.00', '–', '–', '–'] in lines


def test_the_picture_has_a_panel_a_case_and_a_point_a_method():
    jobs = rivals_table.jobs_of({}, seeds=[0, 1])
    accuracies = {column: 0.9 + 0.005 * i for i, column in enumerate(rivals.COLUMNS)}
    records = {(case, column): {seed: record(job, accuracies[column], bytes_up=0.0 if column == 'local' else 3.6e6)
                                for seed, job in of_seeds.items()}
               for (case, column), of_seeds in jobs.items() if case != 'femnist'}
    figure = rivals_table.picture(records)
    assert [axis.get_title() for axis in figure.axes] == ['har', 'mnist-dirichlet-0.1', 'mnist-dirichlet-5']
    lines = {container.get_label(): container.lines[0] for container in figure.axes[0].containers}
    assert {*lines} == {column.label for column in rivals.COLUMNS.values()}
    for column, accuracy in accuracies.items():
        (error,) = lines[rivals.COLUMNS[column].label].get_ydata()
        assert error == pytest.approx(100 - 100 * accuracy)
    looks = {(line.get_color(), line.get_marker()) for line in lines.values()}
    places = np.array([line.get_xdata()[0] for line in lines.values()])
    assert len(looks) == len({*places.round(6)}) == len(rivals.COLUMNS)
    assert places.min() == 0.0 and sorted(places)[1:][7] == pytest.approx(3.6, abs=0.2)
    bottom, top = figure.axes[0].get_ylim()
    assert bottom > top and figure.axes[0].yaxis.get_major_formatter()(5.0) == '95'
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {*lines}
