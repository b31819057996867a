import stored_runs

from virtual_tf.report import convergence_table
from virtual_tf.report.sources import Source
from virtual_tf.runs.summary import MT, MT_VISITED, S, summarise
from virtual_tf.studies import convergence, grids
from virtual_tf.studies.convergence import COLUMNS


def record(s, loss=0.5):
    figures = {S: s, MT: s, MT_VISITED: s, 'server/cross_entropy': loss, 'mt/cross_entropy': loss}
    return {'figures': {'max': figures, 'last_5': figures}, 'rounds': 60, 'caveat': '', 'never_selected': 0}


def lines_of(records, protocol='last_5'):
    header, lines = convergence_table.of_case('vsn', records, protocol)
    return {line[0]: dict(zip(header[1:], line[1:])) for line in lines}


def test_the_better_baseline_is_named_by_measure_and_compared_by_common_seeds():
    # FedProx is better in accuracy by its common seeds, FedAvg in cross-entropy; seed 2 has no partner.
    records = {('vsn', 'virtual'): {0: record(0.90, 0.30), 1: record(0.80, 0.20)},
               ('vsn', 'fedavg'): {0: record(0.87, 0.35), 1: record(0.77, 0.25)},
               ('vsn', 'fedprox'): {0: record(0.88, 0.40), 1: record(0.78, 0.30), 2: record(0.1, 9.0)}}
    line = lines_of(records)['VIRTUAL − better baseline']
    assert line['S accuracy %'] == line['MT of the visited %'] == '+2.00 ± 0.00 won (FedProx)'
    assert line['S cross-entropy'] == '-0.050 ± 0.000 won (FedAvg)'
    assert line['S ECE %'] == '–', 'nothing was kept of it'
    assert 'VIRTUAL − better baseline, tuned' not in lines_of(records)


def test_every_way_to_deploy_a_baseline_is_compared_and_the_paper_stands_below():
    records = {('vsn', column): {0: record(0.9), 1: record(0.8)} for column in COLUMNS}
    records[('vsn', 'fedavg-tuned')] = {0: record(0.95), 1: record(0.85)}
    lines = lines_of(records, 'max')
    assert lines['VIRTUAL − better baseline, tuned']['MT accuracy %'] == '-5.00 ± 0.00 lost (FedAvg)'
    assert lines['VIRTUAL − better baseline, mixed']['MT accuracy %'] == '+0.00 ± 0.00 tied (FedAvg)'
    assert lines['VIRTUAL, authors\' choices − better baseline']['S accuracy %'].startswith('+0.00')
    assert lines['paper: VIRTUAL / better baseline']['S accuracy %'] == '88.8 / 89.6'
    assert len(lines) == len(COLUMNS) + 3 + 2 + 1


def test_runs_become_a_table_and_their_record_stands_for_them_when_they_are_gone(tmp_path, monkeypatch):
    monkeypatch.setitem(convergence.CHOSEN, 'vsn', {})
    jobs = {key: seeds for key, seeds in convergence_table.jobs_of({'rounds': 30}, [0, 1]).items() if key[0] == 'vsn'}
    assert {column for _, column in jobs} == {*COLUMNS}
    rows = [{S: 0.01 * number, MT: 0.02 * number, MT_VISITED: 0.03 * number, 'seconds': 1.0} for number in range(1, 31)]
    rows[14] |= {S: 0.07}
    for seeds in jobs.values():
        for job in seeds.values():
            stored_runs.write(tmp_path / 'runs' / job.name, job.settings, rows, summarise(
                [{'round': i + 1} | row for i, row in enumerate(rows)]))
    source = Source(tmp_path / 'runs', given={'rounds': 30})
    text = convergence_table.write(tmp_path, jobs, source)
    # The best of the first 23 rounds, which are the authors', and of all 30.
    # Each round gains a point, but for the one that we let fall by seven.
    assert '| largest fall of S in a round after round 10, points | `vsn` |' in text and '| VIRTUAL | 7.0 |' in text
    assert '| `vsn`, authors |' in text and '23.00 ± 0.00 | – | – | 46.00' in text and '30.00 ± 0.00' in text
    again = convergence_table.write(tmp_path, jobs, Source(tmp_path / 'nothing', given={'rounds': 30}))
    assert again == text and 'not swept yet' in text


def test_a_case_that_nobody_has_swept_is_not_played(monkeypatch):
    monkeypatch.setattr(convergence, 'CHOSEN', {'har': {}})
    assert {case for case, _ in convergence_table.jobs_of({}, [0])} == {'har'}
    assert grids.of_studies(['convergence/vsn'], {}, [0]), 'but by name it may be'
