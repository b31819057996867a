import math
import shutil

import pytest
import stored_runs

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.studies import grids, halving
from virtual_tf.studies.halving import Stage

RATES = (0.1, 0.2, 0.3, 0.4)


def make_groups(seeds=(0,), rounds=6):
    groups, _ = grids.of_variants([{'method': 'fedavg'}], {'client_lr': RATES},
                                  {'rounds': rounds, 'validation_fraction': 0.2}, seeds)
    return groups


def player(root, accuracy):
    """Plays a job as a real run would: to its rounds, from where it was; and notes what it was asked for."""
    asked = []

    def play(jobs):
        asked.append([(job.settings.client_lr, job.settings.rounds) for job in jobs])
        for job in jobs:
            path = root / job.name
            shutil.rmtree(path, ignore_errors=True)
            rows = [{f'val_{name}/accuracy': accuracy(job.settings.client_lr, number) for name in ('server', 'mt')}
                    for number in range(1, job.settings.rounds + 1)]
            stored_runs.write(path, job.settings, rows)
    return play, asked


def test_stages_are_read_and_nonsense_is_refused():
    assert halving.parse('8:4,20:2') == [Stage(8, 4), Stage(20, 2)]
    for text in ('8', '8:4,8:2', '8:4,20:4', 'x:y', '0:1', '8:0', ''):
        with pytest.raises(VirtualTfError, match='as 8:4,20:2'):
            halving.parse(text)
    with pytest.raises(VirtualTfError, match='a whole run has 6'):
        halving.check([Stage(6, 2)], make_groups())


def test_the_best_go_on_and_nothing_is_played_that_was_decided(tmp_path):
    # The rate that is best early is not the best later, and 0.1 is out before it would have won.
    curves = {0.1: lambda t: 0.1 * t, 0.2: lambda t: 0.5, 0.3: lambda t: 0.45 + 0.05 * t, 0.4: lambda t: math.nan}
    play, asked = player(tmp_path, lambda rate, number: curves[rate](number))
    (group,), records = halving.play(make_groups(), [Stage(1, 2), Stage(3, 1)], tmp_path, play)
    assert asked == [[(rate, 1) for rate in RATES], [(0.2, 3), (0.3, 3)], [(0.3, 6)]]
    assert [dict(point)['client_lr'] for point in group.points] == [0.3]
    first, second = records['fedavg']
    assert [point['goes_on'] for point in first['points']] == [True, True, False, False]
    assert first['points'][0]['scores'] == [pytest.approx(50.0)] and second['rounds'] == 3
    # Again, after a stop: all decisions are the same and nothing short of the end is played.
    lacking = []
    again, records_again = halving.play(make_groups(), [Stage(1, 2), Stage(3, 1)], tmp_path, lambda few: lacking.extend(
        job for job in few if not halving.reached(job, tmp_path)))
    assert lacking == [] and [*again[0].points] == [*group.points] and str(records_again) == str(records)


def test_what_lies_beyond_an_edge_is_played_until_the_best_is_inside_or_a_limit_is_reached(tmp_path):
    # The best rate is 0.8, two steps of a factor of two above the grid's 0.2; a third finds it worse beyond.
    for rates, best, asked_for in (((0.1, 0.2), 0.8, [0.4, 0.8, 1.6]), ((0.8, 1.6), 0.8, [0.4])):
        root = tmp_path / str(best + rates[0])
        groups, _ = grids.of_variants([{'method': 'fedavg'}], {'client_lr': rates},
                                      {'rounds': 6, 'validation_fraction': 0.2}, (0, 1))
        play, asked = player(root, lambda rate, number, best=best: 0.9 - abs(math.log2(rate / best)) / 10)
        left, _ = halving.play(groups, [Stage(1, 1)], root, play)
        del asked[:]
        wider, edges = halving.widen(groups, left, root, play, times=5)
        assert [rate for played in asked for rate, _ in dict.fromkeys(played)] == asked_for
        assert edges == {'fedavg': []} and {rounds for played in asked for _, rounds in played} == {6}
        assert len({job.name for job in wider[0].jobs()}) == 2 * (1 + len(asked_for)), 'folders of their own'
        assert dict(halving.decide(wider[0], root)) == {'client_lr': best}


def test_two_edges_at_once_are_both_widened_a_tie_and_a_grid_that_learns_nothing_are_not(tmp_path):
    groups, _ = grids.of_variants([{'method': 'fedprox'}], {'client_lr': (0.1, 0.2), 'l2': (0.0, 0.01)},
                                  {'rounds': 6, 'validation_fraction': 0.2}, (0,))
    for number, (score, new) in enumerate((
            (lambda s: s.client_lr + s.l2, [(0.4, 0.01), (0.2, 0.02)]), (lambda s: 0.5, []), (lambda s: math.nan, []))):
        root = tmp_path / f'r{number}'
        for job in groups[0].jobs():
            stored_runs.write(root / job.name, job.settings, 6 * [
                {f'val_{name}/accuracy': score(job.settings) for name in ('server', 'mt')}])
        played = []

        def play(jobs, root=root, score=score, played=played):
            for job in jobs:
                played.append((job.settings.client_lr, job.settings.l2))
                stored_runs.write(root / job.name, job.settings, 6 * [
                    {f'val_{name}/accuracy': score(job.settings) for name in ('server', 'mt')}])
        halving.widen(groups, groups, root, play, times=1)
        # From l2 = 0 no ratio leads to 0.01: there it is doubled.
        assert played == new


def test_an_axis_that_ends_where_its_setting_does_stays_at_its_edge(tmp_path):
    groups, _ = grids.of_variants([{'method': 'virtual'}], {'damping': (0.5, 1.0)},
                                  {'rounds': 6, 'validation_fraction': 0.2}, (0,))
    for job in groups[0].jobs():
        stored_runs.write(tmp_path / job.name, job.settings, 6 * [
            {f'val_{name}/accuracy': job.settings.damping for name in ('server', 'mt')}])
    left, edges = halving.widen(groups, groups, tmp_path, lambda jobs: jobs and pytest.fail('nothing to play'))
    assert left == groups and edges == {'virtual': ['damping']}


def test_an_axis_along_which_other_settings_change_is_not_widened(tmp_path):
    # The paper's γ is 1 − η_s: nobody here knows that a point beyond has another γ as well.
    groups, _ = grids.of_variants([{'method': 'virtual'}], {'server_lr': (0.2, 0.4)},
                                  {'preset': 'paper', 'rounds': 6, 'validation_fraction': 0.2}, (0,))
    ((point, jobs), _) = groups[0].points.items()
    assert jobs[0].settings.damping == 0.8
    assert grids.beyond(groups[0], {0.2, 0.4}, point, 'server_lr') == {}


def test_of_points_within_a_standard_error_the_smallest_rate_is_chosen():
    def point(rate):
        return (('client_lr', rate),)
    # The best has mean 92 and a standard error of 1: 91.5 is near enough, 90 is not.
    scores = {point(0.1): [90.0, 90.0], point(0.2): [91.0, 92.0], point(0.4): [91.0, 93.0], point(0.3): [91.5, 91.5]}
    assert halving.choose(scores) == point(0.2)
    assert halving.choose({point(0.1): [90.0], point(0.2): [91.0]}) == point(0.2)
    assert halving.choose({point(0.1): [math.nan], point(0.2): [10.0]}) == point(0.2)
