"""The study of Table 2 at convergence as data: legal, complete, and the same effort for every method."""
import json
import pathlib

import pytest

from virtual_tf.runs import driver
from virtual_tf.studies import convergence, experiments, grids
from virtual_tf.studies.convergence import BASELINES, CASES, COLUMNS, OURS, WAYS

SWEEPS = {path.stem.removeprefix('convergence-'): path for path in (
    pathlib.Path(__file__).parents[2] / 'results' / 'sweeps').glob('convergence-*.json')}


@pytest.mark.parametrize('case', CASES)
def test_every_column_is_a_run_of_its_own_on_the_same_data(case):
    found = {column: convergence.converged(case, column).settings(1) for column in COLUMNS}
    assert len({*found.values()}) == len(COLUMNS) == 9
    for settings in found.values():
        driver.check_names(settings)
        assert settings.rounds == CASES[case].rounds
    of_data = [name for name, setting in found[OURS].declared.items() if setting.group == 'data']
    for name in (*of_data, 'model', 'epochs', 'batch_size', 'clients_per_round'):
        assert len({getattr(settings, name) for settings in found.values()}) == 1, name


@pytest.mark.parametrize('name', BASELINES)
def test_what_a_baseline_deploys_is_all_that_its_ways_differ_by(name):
    plain = convergence.converged('har', name).settings()
    mixed, tuned = (convergence.converged('har', f'{name}{way}').settings() for way in ('-mixed', '-tuned'))
    ours = convergence.converged('har', OURS).settings()
    assert mixed.replace(mt_share=1.0) == plain == tuned.replace(fine_tune=0)
    assert (mixed.mt_share, tuned.fine_tune) == (ours.damping, ours.fine_tune) and len(WAYS) == 3


@pytest.mark.parametrize('case', CASES)
@pytest.mark.parametrize('column', convergence.SWEEP_COLUMNS)
def test_every_sweep_has_twelve_points_and_as_many_rounds(case, column):
    (points,) = convergence.sweep(case, column).values()
    found = {each.settings(100) for each in points.values()}
    assert len(found) == len({each.name for each in points.values()}) == 12
    assert {(one.rounds, one.validation_fraction) for one in found} == {(min(CASES[case].rounds, 60), 0.2)}
    rates = sorted({one.client_lr for one in found})
    ratio = rates[0] / CASES[case].rates[0]
    assert rates == pytest.approx([rate * ratio for rate in CASES[case].rates])


def test_a_sweep_has_seeds_that_no_table_has_and_stages_of_its_own():
    study = experiments.GRIDS['sweeps/convergence-vsn']
    parts = [part for case in CASES for part in convergence.parts(case).values()]
    assert study.stages and not {*study.seeds} & {seed for _, seeds in parts for seed in seeds}
    every = [column for columns, _ in parts for column in columns]
    assert sorted(every) == sorted([*COLUMNS] * len(CASES))
    group = grids.of_studies(['convergence/vsn'], {})[0]
    assert [*group.points[()]] == [*range(10)] and group.name == 'convergence/vsn/virtual'


def test_the_presets_keep_what_they_are_but_for_what_is_swept():
    authors = convergence.converged('femnist', 'authors').settings()
    assert (authors.parameterisation, authors.client_lr, authors.standardize) == ('natural', 1e7, 'center')
    assert convergence.converged('mnist', 'paper').settings().private == 'joint'
    rates = {each.settings().client_lr for each in convergence.sweep('femnist', 'authors')[
        'sweeps/convergence-femnist/authors'].values()}
    assert 1e7 in rates, 'the preset\'s own rate is among them'


def test_what_was_chosen_is_what_the_sweeps_say():
    assert {*convergence.CHOSEN} == {*SWEEPS}
    for case, path in SWEEPS.items():
        groups = json.loads(path.read_text(encoding='utf-8'))['groups']
        assert grids.chosen(groups, f'sweeps/convergence-{case}') == convergence.CHOSEN[case]
        assert {*convergence.CHOSEN[case]} == {*convergence.SWEEP_COLUMNS}
        for column, chosen in convergence.CHOSEN[case].items():
            settings = convergence.converged(case, column).settings()
            assert {name: getattr(settings, name) for name in chosen} == chosen
