"""The study of the rivals as data: legal, complete, and the same effort for every method."""
import json
import pathlib

import pytest

from virtual_tf.methods import registry
from virtual_tf.runs import driver
from virtual_tf.studies import experiments, grids, rivals

SWEEPS = {path.stem.removeprefix('rivals-'): path for path in (
    pathlib.Path(__file__).parents[2] / 'results' / 'sweeps').glob('rivals-*.json')}


def points_of(case, column):
    (points,) = rivals.sweep(case, column).values()
    return points


@pytest.mark.parametrize('case', rivals.CASES)
def test_every_column_is_a_run_of_its_own_on_every_case(case):
    found = {column: rivals.rival(case, column).settings(3) for column in rivals.COLUMNS}
    assert len({settings for settings in found.values()}) == len(found)
    for settings in found.values():
        driver.check_names(settings)
        assert (settings.model, settings.unseen_fraction, settings.seed) == ('mlp', rivals.CASES[case].unseen, 3)
        assert settings.rounds == rivals.CASES[case].rounds
        assert all(getattr(settings, name) == value for name, value in rivals.CASES[case].given.items())


def test_no_method_is_left_out_and_every_column_has_a_look():
    columns = rivals.COLUMNS.values()
    assert {column.given['method'] for column in columns} == {*registry.METHODS}
    labels = [column.label for column in columns]
    assert len({*labels}) == len(labels) and {*labels} <= {*registry.looks()}


@pytest.mark.parametrize('column', rivals.COLUMNS)
@pytest.mark.parametrize('case', rivals.CASES)
def test_every_sweep_has_four_points_and_the_default_is_among_the_values(case, column):
    points = points_of(case, column)
    found = [each.settings(100) for each in points.values()]
    assert len({*found}) == len({each.name for each in points.values()}) == len(points) == 4
    assert {(one.rounds, one.validation_fraction, one.unseen_fraction) for one in found} == {
        (rivals.SWEEP_ROUNDS, 0.2, 0.0)}
    _, given, axis, *_ = rivals.COLUMNS[column]
    rates = {one.client_lr for one in found}
    assert {*rivals.CASES[case].rates} <= rates and len(rates) == (4 if axis == rivals.RATE else 2)
    if axis != rivals.RATE:
        usual = getattr(registry.make_settings(given), axis)
        assert usual in {getattr(one, axis) for one in found} and len({getattr(one, axis) for one in found}) == 2


def test_no_table_has_the_seeds_of_the_sweeps():
    assert not {*rivals.SWEEP_SEEDS} & {seed for _, seeds in experiments.STUDIES.values() for seed in seeds}
    groups = grids.of_studies(['sweeps/rivals-har'], {})
    assert [group.name for group in groups] == [f'sweeps/rivals-har/{column}' for column in rivals.COLUMNS]
    assert {job.settings.seed for group in groups for job in group.jobs()} == {*rivals.SWEEP_SEEDS}
    assert all(rivals.SWEEP_ROUNDS < case.rounds for case in rivals.CASES.values())


def test_a_tuned_baseline_differs_from_the_plain_one_by_its_epochs_alone(monkeypatch):
    monkeypatch.setattr(rivals, 'CHOSEN', {})
    for name in ('fedavg', 'fedprox'):
        for case, details in rivals.CASES.items():
            plain, tuned = (rivals.rival(case, column).settings() for column in (name, f'{name}-tuned'))
            assert tuned.fine_tune == tuned.epochs == details.epochs and tuned.replace(fine_tune=0) == plain


def test_what_a_sweep_chose_goes_into_the_run(monkeypatch):
    monkeypatch.setattr(rivals, 'CHOSEN', {'har': {'ditto': {'client_lr': 0.02, 'personal_l2': 0.1}}})
    settings = rivals.rival('har', 'ditto').settings()
    assert (settings.client_lr, settings.personal_l2) == (0.02, 0.1)
    assert rivals.rival('femnist', 'ditto').settings().personal_l2 == 1.0


def test_chosen_values_are_points_of_the_sweeps():
    for case, columns in rivals.CHOSEN.items():
        assert {*columns} == {*rivals.COLUMNS}
        for column, values in columns.items():
            assert values in [dict(point) for point in points_of(case, column)], (case, column)


@pytest.mark.parametrize('case', SWEEPS)
def test_chosen_values_are_those_that_the_sweep_in_results_has_picked(case):
    record = json.loads(SWEEPS[case].read_text(encoding='utf-8'))
    assert grids.chosen(record['groups'], f'sweeps/rivals-{case}') == rivals.CHOSEN[case]
    assert record['seeds'] == [*rivals.SWEEP_SEEDS]
    for column in rivals.COLUMNS:
        group = record['groups'][f'sweeps/rivals-{case}/{column}']
        played = [point['settings'] for point in (group['stages'][0] if 'stages' in group else group)['points']]
        assert sorted(map(str, played)) == sorted(str(dict(point)) for point in points_of(case, column))
        # What was not swept was what it is now, so that the choice is for the runs of the table.
        others = record['settings'] | group['points'][0]['other_settings']
        settings = rivals.rival(case, column).settings(record['seeds'][0])
        changed = {name for name, value in others.items() if name in settings and getattr(settings, name) != value
                   and not settings.declared[name].free}
        assert changed <= {'rounds', 'validation_fraction', 'unseen_fraction'}, (case, column, changed)


def test_nothing_is_chosen_without_a_sweep():
    assert {*SWEEPS} == {*rivals.CHOSEN}
