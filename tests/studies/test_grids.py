import math

import pytest
import stored_runs

from virtual_tf.core.errors import RunError, VirtualTfError
from virtual_tf.methods import registry
from virtual_tf.runs.summary import MT, MT_VISITED, S
from virtual_tf.studies import experiments, grids
from virtual_tf.studies.grids import Group
from virtual_tf.studies.workers import Job

FEDAVG, FEDPROX, VIRTUAL = ({'method': name} for name in ('fedavg', 'fedprox', 'virtual'))


def test_axes_of_a_grid():
    assert grids.parse_grid(['client_lr=0.1,0.2,0.1', 'prune=0,50']) == {'client_lr': (0.1, 0.2), 'prune': (0, 50)}
    assert grids.parse_grid(['prune_score=authors,update']) == {'prune_score': ('authors', 'update')}
    for text, said in (('nonsense=1', 'nonsense'), ('client_lr', 'client_lr'), ('prune=0.5', 'int'),
                       ('seed=1', 'seed')):
        with pytest.raises(VirtualTfError, match=said):
            grids.parse_grid([text], lists=['seed'])
    with pytest.raises(VirtualTfError, match='client_lr twice'):
        grids.parse_grid(['client_lr=0.1', 'client_lr=0.2'])


@pytest.mark.parametrize('visited, expected', [(0.8, 80.0), (math.nan, 60.0), (None, 60.0)])
def test_mt_is_scored_over_the_clients_that_have_trained_if_every_round_has_it(tmp_path, visited, expected):
    settings = registry.make_settings({'method': 'fedavg'})
    row = {f'val_{S}': 0.5, f'val_{MT}': 0.6, f'val_{MT_VISITED}': 0.8}
    last = {key: value for key, value in (row | {f'val_{MT_VISITED}': visited}).items() if value is not None}
    stored_runs.write(tmp_path / 'a', settings, [row] * 5 + [last])
    assert grids.parts(Job('a', settings), tmp_path, 'val') == pytest.approx({'S': 50.0, 'MT': expected})


def test_a_method_s_grid_goes_without_an_axis_that_it_has_not():
    axes = {'client_lr': (0.1, 0.2), 'l2': (0.1, 0.2, 0.3)}
    (fedavg, fedprox), notices = grids.of_variants([FEDAVG, FEDPROX], axes, {'rounds': 3}, [0, 1])
    assert list(fedavg.points) == [(('client_lr', 0.1),), (('client_lr', 0.2),)] and len(fedavg.jobs()) == 4
    assert len(fedprox.points) == 6 and {job.settings.rounds for job in fedprox.jobs()} == {3}
    assert notices == ['l2 is no setting of fedavg, whose grid goes without']
    assert fedavg.jobs()[0].name == 'fedavg/client_lr=0.1/seed-0'


def test_a_setting_is_for_the_methods_that_have_it():
    (virtual, fedavg), notices = grids.of_variants([VIRTUAL, FEDAVG], {'client_lr': (0.1, 0.2)}, {'damping': 0.5}, [0])
    assert {job.settings.damping for job in virtual.jobs()} == {0.5} and not notices
    assert all('damping' not in job.settings for job in fedavg.jobs())


@pytest.mark.parametrize('axes, given, said', [
    ({'damping': (0.5, 1.0)}, {}, 'damping is a setting of virtual, of which nothing is asked for'),
    ({}, {'l2': 0.1}, 'l2 is a setting of fedprox'),
    ({'client_lr': (0.1, 0.2)}, {'client_lr': 0.1}, 'client_lr is an axis of fedavg')])
def test_what_changes_nothing_or_would_be_changed_is_refused(axes, given, said):
    with pytest.raises(VirtualTfError, match=said):
        grids.of_variants([FEDAVG], axes, given, [0])


def test_variants_are_called_after_what_they_are():
    (group,), _ = grids.of_variants([VIRTUAL | {'private': 'joint'}], {}, {}, [3])
    assert group.name == 'virtual-joint' and group.jobs()[0].name == 'virtual-joint/seed-3'
    assert group.jobs()[0].settings.private == 'joint'


def test_a_study_has_its_seeds_unless_others_are_given():
    groups = grids.of_studies(['kl'], {})
    assert len(groups) == len(experiments.KL_WEIGHTS) and list(groups[0].points[()]) == [0, 1, 2]
    assert [job.settings.seed for job in grids.of_studies(['kl'], {}, [7])[0].jobs()] == [7]


def test_a_study_takes_a_setting_where_there_is_one_and_refuses_its_own():
    fedavg, fedprox, virtual = grids.of_studies(['table2/mnist'], {'min_scale': 0.001, 'rounds': 3})
    assert virtual.jobs()[0].settings.min_scale == 0.001 and 'min_scale' not in fedavg.jobs()[0].settings
    assert fedprox.jobs()[0].settings.rounds == 3
    for study, given, said in (('table2/mnist', {'dataset': 'har'}, 'dataset is what table2/mnist/fedavg has'),
                               ('kl', {'l2': 0.1}, 'l2 is a setting of fedprox'),
                               ('sweeps/har', {'client_lr': 0.05}, 'client_lr is an axis of sweeps/har/fedavg')):
        with pytest.raises(VirtualTfError, match=said):
            grids.of_studies([study], given)


def test_points_that_cannot_be_compared_are_refused():
    groups, _ = grids.of_variants([FEDAVG], {'client_lr': (0.1, 0.2)}, {}, [0])
    grids.check(groups, 'test_max')
    with pytest.raises(VirtualTfError, match='add --validation_fraction'):
        grids.check(groups, 'val')
    with pytest.raises(VirtualTfError, match='nonsense'):
        grids.check(grids.of_variants([FEDAVG], {'dataset': ('watch', 'nonsense')}, {}, [0])[0], 'test_max')


def played(root, name, rows, **given):
    """A finished Job with these rounds; its best of each metric is what `test_max` goes by."""
    job = Job(name, registry.make_settings({'method': 'fedavg', 'rounds': len(rows)} | given))
    best = {key: max(row[key] for row in rows) for key in (S, MT)}
    stored_runs.write(root / name, job.settings, rows, summary={'max': best, 'seconds': 2.0})
    return job


def test_scores_are_of_the_data_that_was_held_out(tmp_path):
    rows = [{S: 0.9, MT: 0.9, f'val_{S}': 0.0, f'val_{MT}': 0.0}] + [
        {S: 0.5, MT: 0.5, f'val_{S}': 0.6, f'val_{MT}': 0.8}] * 5
    job = played(tmp_path, 'a', rows, validation_fraction=0.2)
    assert grids.score(job, tmp_path, 'val') == pytest.approx(70.0)     # of the last five rounds: (60 + 80) / 2
    assert grids.score(job, tmp_path, 'test_max') == pytest.approx(90.0)
    with pytest.raises(VirtualTfError, match='validation_fraction'):
        grids.score(played(tmp_path, 'b', [{S: 0.5, MT: 0.5}]), tmp_path, 'val')


@pytest.mark.parametrize('method', ['local', 'fedper', 'fedrep'])
def test_a_method_without_a_server_s_model_is_scored_by_mt_alone(method, tmp_path):
    rows = [{S: math.nan, MT: 0.9, f'val_{S}': math.nan, f'val_{MT}': 0.8}]
    job = played(tmp_path, 'a', rows, method=method, validation_fraction=0.2)
    assert grids.score(job, tmp_path, 'val') == pytest.approx(80.0)
    assert grids.score(job, tmp_path, 'test_max') == pytest.approx(90.0)


def test_a_run_that_ended_without_a_number_has_no_score(tmp_path):
    job = played(tmp_path, 'a', [{S: 0.5, MT: 0.5, f'val_{S}': 0.5, f'val_{MT}': math.nan}], validation_fraction=0.2)
    assert math.isnan(grids.score(job, tmp_path, 'val'))
    job.folder(tmp_path).finish({'max': {S: math.nan, MT: 0.5}})
    assert math.isnan(grids.score(job, tmp_path, 'test_max'))


def test_the_best_point_and_the_edges_it_lies_on():
    def scores(best_rate, best_score):
        return {(('client_lr', rate), ('prune_score', kind)): 1.0 + (rate == best_rate and kind == best_score)
                for rate in (0.1, 0.2, 0.4) for kind in ('authors', 'update')}

    assert grids.best_point(scores(0.2, 'update')) == ((('client_lr', 0.2), ('prune_score', 'update')), [])
    assert grids.best_point(scores(0.4, 'authors'))[1] == ['client_lr']
    assert grids.best_point({(('client_lr', 0.1),): math.nan, (('client_lr', 0.2),): 0.5})[0] == (('client_lr', 0.2),)
    with pytest.raises(RunError, match='smaller learning rates'):
        grids.best_point({(('client_lr', 0.1),): math.nan})


def test_an_axis_that_changes_nothing_has_no_edge():
    scores = {(('client_lr', rate), ('prune', percent)): rate for rate in (0.1, 0.2, 0.4) for percent in (0, 50, 75)}
    assert grids.best_point(scores) == ((('client_lr', 0.4), ('prune', 0)), ['client_lr'])
    scores[('client_lr', 0.4), ('prune', 0)] += 1e-9
    assert grids.best_point(scores)[1] == ['client_lr', 'prune']


def points_of(name, values, **given):
    return {((name, value),): {0: Job(str(value), registry.make_settings(given | {name: value}))} for value in values}


def test_a_group_s_report_names_the_best_and_the_edge(monkeypatch, tmp_path):
    points = points_of('client_lr', (0.1, 0.2, 0.4))
    monkeypatch.setattr(grids, 'parts', lambda job, *_: {'MT': {'0.1': 3.0, '0.2': 2.0, '0.4': 1.0}[job.name]})
    text, record = grids.report(Group('g', points), tmp_path, 'val')
    assert record['best'] == {'client_lr': 0.1} and record['edges'] == ['client_lr']
    assert text.splitlines()[1].split() == ['3.00', 'client_lr=0.1', '<-', 'best']
    assert 'edge of the grid; widen it' in text


def test_an_edge_that_cannot_be_widened_is_told_apart(monkeypatch, tmp_path):
    monkeypatch.setattr(grids, 'parts', lambda job, *_: {'MT': float(job.name)})
    text, _ = grids.report(Group('g', points_of('damping', (0.5, 1.0))), tmp_path, 'val')
    assert '1 is the end of what it may be' in text and 'widen' not in text


def test_what_a_study_s_grids_have_chosen_by_column():
    records = {'sweeps/har/fedavg': {'best': {'client_lr': 0.1}},
               'sweeps/har/fedavg/server_lr': {'best': {'client_lr': 0.1, 'server_lr': 2.0}},
               'sweeps/har/ditto': {'best': {'client_lr': 0.2}, 'chosen': {'client_lr': 0.1}}}
    others = {'sweeps/vsn/fedavg': {'best': {'client_lr': 0.5}}}
    assert grids.chosen(records | others, 'sweeps/har') == {
        'fedavg': {'client_lr': 0.1, 'server_lr': 2.0}, 'ditto': {'client_lr': 0.1}}


def test_the_worst_fall_is_that_of_the_worst_seed_that_was_played(tmp_path):
    jobs = {seed: played(tmp_path, str(seed), [{S: 0.9, MT: 0.9}] * 10 + [{S: after, MT: 0.9}], seed=seed)
            for seed, after in ((0, 0.8), (1, 0.85))}
    settings = jobs[0].settings
    assert grids.worst_fall(jobs | {2: Job('2', settings)}, tmp_path) == pytest.approx(10.0)
    assert grids.worst_fall({2: Job('2', settings)}, tmp_path) is None


def test_scores_are_means_over_seeds(tmp_path):
    jobs = {seed: played(tmp_path, str(seed), [{S: level, MT: level}], seed=seed)
            for seed, level in ((0, 0.2), (1, 0.4))}
    assert grids.mean_scores({(): jobs}, tmp_path, 'test_max') == {(): pytest.approx(30.0)}


def test_a_line_that_misses_the_best_point_of_its_grid_is_named():
    line = {'best': {'client_lr': 0.1, 'server_lr': 2.0}}
    records = {'a': {'best': {'client_lr': 0.1, 'server_lr': 1.0}}, 'a/server_lr': line,
               'b': {'best': {'client_lr': 0.2, 'server_lr': 2.0}}, 'b/server_lr': line}
    assert grids.misplaced_lines(records) == ['b']


def test_what_is_written_of_a_sweep_has_what_all_share_and_what_each_point_has_of_its_own(tmp_path):
    groups, _ = grids.of_variants([FEDAVG, FEDPROX], {'dataset': ('watch', 'har')}, {'rounds': 1}, [0, 1])
    records = {}
    for group in groups:
        for job in group.jobs():
            stored_runs.write(tmp_path / job.name, job.settings, [{S: 0.5, MT: 0.5}],
                              summary={'max': {S: 0.5, MT: 0.5}, 'seconds': 2.0})
        _, records[group.name] = grids.report(group, tmp_path, 'test_max')
    record = grids.sweep_record(groups, records, tmp_path, 'test_max', 3.0)
    assert record['seeds'] == [0, 1] and (record['run_seconds'], record['seconds']) == (16.0, 3.0)     # of eight runs
    assert record['settings']['rounds'] == 1
    assert not {'dataset', 'client_lr', 'seed', 'method', 'l2'} & set(record['settings'])
    # The usual rate is 0.1, on HAR 0.05.
    assert [point['other_settings'] for point in record['groups']['fedprox']['points']] == [
        {'method': 'fedprox', 'client_lr': rate, 'l2': 0.01} for rate in (0.1, 0.05)]
    assert [point['settings'] for point in record['groups']['fedavg']['points']] == [
        {'dataset': 'watch'}, {'dataset': 'har'}]


def test_settings_are_shared_if_all_have_them_and_alike():
    found = [registry.make_settings(given) for given in (FEDAVG | {'seed': 1}, FEDPROX | {'seed': 1})]
    shared = grids.shared_settings(found)
    assert shared['seed'] == 1 and 'method' not in shared and 'l2' not in shared
