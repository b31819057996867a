import itertools
import json
import pathlib

import pytest

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.methods import registry
from virtual_tf.studies import experiments, paper

SWEEPS = [path for path in (pathlib.Path(__file__).parents[2] / 'results' / 'sweeps').glob('*.json')
          if not path.stem.startswith(('rivals-', 'convergence-'))]     # which have tests of their own
ALL = [each for found, _ in experiments.STUDIES.values() for each in found]


def test_every_experiment_has_settings_and_a_name_of_its_own():
    assert len({each.name for each in ALL}) == len(ALL)
    for each in ALL:
        settings = each.settings(seed=7)
        assert settings.seed == 7 and settings.method in registry.METHODS and settings.clients_per_round == 10
        assert all(getattr(settings, name) == value for name, value in each.given)


@pytest.mark.parametrize('name, case', experiments.CASES.items())
def test_cases_have_a_row_in_the_paper(name, case):
    assert set(paper.TABLE_2[case.paper]) == {'fedavg', 'fedprox', 'virtual'}


def test_a_later_dict_wins():
    assert experiments.experiment('a', {'x': 1, 'y': 2}, {'x': 3}).given == (('x', 3), ('y', 2))


def test_the_server_moves_alike_whatever_the_damping():
    found = [each.settings() for each in experiments.sweep('mnist', 'virtual')['sweeps/mnist/virtual'].values()]
    assert {settings.damping for settings in found} == {0.25, 0.5, 0.75, 1.0}
    assert [settings.damping * settings.server_lr for settings in found] == pytest.approx([0.16] * len(found))
    # but not in a grid of the user's own
    each, = experiments.grid('g', {'server_lr': 0.3}, {'damping': (0.5,)}).values()
    assert (each.settings().damping, each.settings().server_lr) == (0.5, 0.3)


def test_the_usual_step_is_that_of_the_damping_that_was_usual():
    # γ·η_s = 0.8·0.2
    assert pytest.approx(0.16) == experiments.STEP


def test_every_column_has_a_label_of_its_own_and_a_look_if_it_is_drawn():
    labels = [column.label for column in experiments.ALL_COLUMNS.values()]
    assert len(set(labels)) == len(labels) and labels[:3] == ['FedAvg', 'FedProx', 'VIRTUAL']
    drawn = [*experiments.COLUMNS.values(), experiments.ALL_COLUMNS['fedavg_init']]
    assert {column.label for column in drawn} <= set(registry.looks())


def test_a_variant_has_the_values_of_its_method_and_the_authors_have_their_own():
    assert experiments.chosen('mnist', 'virtual-residual') == experiments.chosen('mnist', 'virtual') != {}
    assert experiments.chosen('mnist', 'authors') == {}


def test_a_grid_has_every_combination():
    points = experiments.grid('g', {'rounds': 3}, {'client_lr': (0.1, 0.2), 'prune': (0, 50)})
    assert len(points) == 4
    each = points[('client_lr', 0.2), ('prune', 50)]
    assert each.name == 'g/client_lr=0.2_prune=50'
    assert dict(each.given) == {'rounds': 3, 'client_lr': 0.2, 'prune': 50}
    each, = experiments.grid('g', {'rounds': 3}, {}).values()
    assert each.name == 'g'


@pytest.mark.parametrize('case', experiments.CASES)
def test_every_method_gets_the_same_effort_in_a_sweep(case):
    efforts = []
    for column in experiments.COMPARED:
        parts = experiments.sweep(case, column)
        points = {each for part in parts.values() for each in part.values()}
        settings = {each.settings() for each in points}
        assert len({one.rounds for one in settings}) == 1
        assert {one.validation_fraction for one in settings} == {experiments.SWEEP_VALIDATION}
        assert len({each.name for each in points}) == len(settings) == len(points)
        efforts.append(len(points))
    rates = len(experiments.CASES[case].rates)
    assert efforts == 3 * [rates * 2 if experiments.CASES[case].slow else rates * 4 + 4]
    # FedProx is the best run with a penalty; without one it is FedAvg.
    assert min(each.settings().l2 for each in experiments.sweep(case, 'fedprox')[f'sweeps/{case}/fedprox'].values()) > 0


def test_a_line_goes_through_the_best_point_of_the_grid_and_takes_along_what_that_has_there():
    # pmnist's VIRTUAL: the usual step is 0.16/γ with γ = 1, and the grid has had it
    parts = experiments.sweep('pmnist', 'virtual')
    line = parts['sweeps/pmnist/virtual/server_lr']
    assert [dict(point) for point in line] == [
        {'client_lr': 0.1, 'damping': 1.0, 'server_lr': pytest.approx(0.16 * step)} for step in (1, 0.7, 1.4, 2, 2.8)]
    assert next(iter(line.values())) in parts['sweeps/pmnist/virtual'].values()
    # HAR's has γ = 0.75, FedProx's usual step is 1
    for case, column, usual in (('har', 'virtual', 0.16 / 0.75), ('har', 'fedprox', 1.0)):
        line = experiments.sweep(case, column)[f'sweeps/{case}/{column}/server_lr']
        assert [dict(point)['server_lr'] for point in line] == pytest.approx([usual * x for x in (1, 0.7, 1.4, 2, 2.8)])
    # FedAvg's grid has four steps at each rate
    line = experiments.sweep('pmnist', 'fedavg')['sweeps/pmnist/fedavg/server_lr']
    assert [dict(point)['server_lr'] for point in line] == [0.7, 1.0, 1.4, 2.0, 0.5, 2.8, 4.0, 5.6]
    assert {dict(point)['client_lr'] for point in line} == {0.1}


@pytest.mark.parametrize('column, count', [('fedavg', 5 * 5), ('fedprox', 5 * 5 * 5), ('virtual', 5 * 5 * 4)])
def test_the_paper_s_grid_has_five_values_on_each_axis(column, count):
    points = experiments.paper_grid('mnist', column)[f'paper-grid/mnist/{column}']
    assert len(points) == count
    found = [each.settings() for each in points.values()]
    for name in ('client_lr', *experiments.PAPER_REGULARISERS[column]):
        values = sorted({getattr(one, name) for one in found})
        assert len(values) == 5
        assert [b / a for a, b in itertools.pairwise(values)] == pytest.approx([values[1] / values[0]] * 4, rel=0.01)
    assert {one.rounds for one in found} == {60} and min(one.get('l2', 1.0) for one in found) > 0
    if column == 'virtual':     # γ = 1 − η_s, without the η_s at which nothing would move
        assert {(one.server_lr, round(one.damping, 9)) for one in found} == {
            (0.2, 0.8), (0.4, 0.6), (0.6, 0.4), (0.8, 0.2)}


def test_the_server_rate_that_would_freeze_the_clients_is_refused():
    # the paper's γ = 1 − η_s with η_s = 1
    with pytest.raises(VirtualTfError, match='freeze'):
        experiments.experiment('x', {'preset': 'paper', 'server_lr': 1.0}).settings()


@pytest.mark.parametrize('path', sorted(SWEEPS), ids=lambda path: path.stem)
def test_chosen_values_are_those_that_a_sweep_in_results_has_picked(path):
    groups = json.loads(path.read_text(encoding='utf-8'))['groups']
    for column in experiments.COMPARED:
        chosen = experiments.chosen(path.stem, column)
        for part, points in experiments.sweep(path.stem, column).items():
            played = {tuple(each['settings'].items()): each['score'] for each in groups[part]['points']}
            assert set(played) == set(points)
            assert max(played, key=played.get) == tuple(groups[part]['best'].items())
        assert groups[part]['best'] == chosen
        grid = groups[f'sweeps/{path.stem}/{column}']['best']
        assert all(grid[name] == value for name, value in chosen.items() if name != 'server_lr')


def test_nothing_is_chosen_without_a_sweep():
    assert {path.stem for path in SWEEPS} == set(experiments.CHOSEN)


def test_a_case_of_which_nothing_is_known_has_a_grid_and_no_line(monkeypatch):
    monkeypatch.delitem(experiments.CHOSEN, 'har')
    assert list(experiments.sweep('har', 'virtual')) == ['sweeps/har/virtual']


def test_studies_by_name():
    assert experiments.study('kl')[1] == (0, 1, 2)
    found, seeds = experiments.study('table2/mnist/virtual')
    assert [each.name for each in found] == ['table2/mnist/virtual'] and seeds == (0, 1, 2)
    with pytest.raises(VirtualTfError, match='table2/mnist'):
        experiments.study('table9')


def test_table_3_varies_what_it_is_about():
    first, second = (dict(experiments.table3(*row).given) for row in (('virtual', 50), ('fedavg_init', 50)))
    assert second == first | {'client_start': 'fedavg_init'}
    assert 'prune' not in dict(experiments.table3('fedavg').given)
