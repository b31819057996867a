import ast
import json
import math
import subprocess
import sys

import pytest
import stored_runs
from absl import flags
from absl.testing import flagsaver

from scripts import live_table, sweep
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.methods import registry
from virtual_tf.methods.registry import make_settings
from virtual_tf.runs.summary import MT, S
from virtual_tf.studies import grids
from virtual_tf.studies.workers import Job


@pytest.fixture
def asked():
    """What flags ask for; they are defined once in a process."""
    if 'study' not in flags.FLAGS:
        sweep.define_flags()

    def parse(*arguments):
        flags.FLAGS(['sweep', *arguments])
        return sweep.groups_of_flags(flags.FLAGS)

    with flagsaver.flagsaver():
        yield parse


def test_flags_apply_to_every_run_of_a_study(asked):
    (group, *others), notices = asked('--study=kl', '--rounds=3', '--seed=1')
    assert len(others) == 6 and [job.settings.rounds for job in group.jobs()] == [3] and not notices
    assert [job.settings.seed for job in group.jobs()] == [1]


@pytest.mark.parametrize('more', [[], ['--halving=8:3']])
def test_the_rivals_sweep_ends_with_what_every_method_chose(asked, tmp_path, capsys, more):
    arguments = ['--study=sweeps/rivals-har', f'--output_dir={tmp_path}', *more]
    groups, _ = asked(*arguments)
    assert {len(group.points) for group in groups} == {4}
    # Every run is there; the fourth point has the best MT of each method, and where there is no S it is NaN.
    for group in groups:
        for i, job in enumerate(group.jobs()):
            server = 0.5 if registry.find(job.settings.method).learns_server else math.nan
            stored_runs.write(tmp_path / job.name, job.settings, 20 * [{f'val_{S}': server, f'val_{MT}': (
                0.9 if i == 3 else 0.8)}], summary={'seconds': 1.0})
    sweep.main(None)
    told = capsys.readouterr().out.split('sweeps/rivals-har has chosen, as studies/ has it:\n')[1]
    chosen = ast.literal_eval(f'{{{told}}}')
    assert chosen == {group.name.split('/')[2]: dict([*group.points][3]) for group in groups}
    record = json.loads((tmp_path / 'sweeps' / 'rivals-har' / 'sweep.json').read_text(encoding='utf-8'))
    assert grids.chosen(record['groups'], 'sweeps/rivals-har') == chosen and record['seeds'] == [100]


def test_a_grid_of_one_s_own_has_a_group_for_each_method_and_variant(asked):
    groups, notices = asked('--method=virtual,fedavg', '--private=none,joint', '--grid=damping=0.5,1', '--epochs=3',
                            '--select=test_max', '--seed=0,1')
    assert [(group.name, len(group.points)) for group in groups] == [
        ('virtual-none', 2), ('virtual-joint', 2), ('fedavg', 1)]
    assert {job.settings.epochs for group in groups for job in group.jobs()} == {3} and len(groups[0].jobs()) == 4
    assert notices == ['damping is no setting of fedavg, whose grid goes without']


@pytest.mark.parametrize('arguments, said', [
    (['--study=kl', '--grid=client_lr=0.1'], 'study and grid exclude'),
    (['--study=kl', '--method=virtual'], 'study and method exclude'),
    (['--study=kl', '--private_baselines'], 'study and private_baselines exclude'),
    (['--method=fedavg', '--grid=client_lr=0.1,0.2'], 'add --validation_fraction'),
    (['--study=sweeps/har', '--client_lr=0.05'], 'client_lr is an axis of sweeps/har/fedavg'),
    (['--study=kl', '--kl_weight=0.1'], 'kl_weight is what kl/1e-06 has a value of its own for'),
    (['--study=table2/mnist', '--dataset=har'], 'dataset is what table2/mnist/fedavg has'),
    (['--ray_address=here:1'], 'ray_address is for --engine=ray; add that'),
    (['--workers=2'], 'workers is for --engine=ray'),
    (['--gpus_per_worker=1'], 'gpus_per_worker is for --engine=ray'),
    (['--engine=ray', '--gpus_per_worker=1'], 'goes with --workers'),
    (['--grid=nonsense=1'], 'nonsense'),
    (['--method=virtual,nonsense'], 'nonsense'),
    (['--seed=x'], 'seed must be a whole number'),
    (['--grid=client_lr=0.1,0.2', '--validation_fraction=0.2', '--rounds=5', '--halving=5:1'], 'a whole run has 5'),
    (['--grid=client_lr=0.1,0.2', '--select=test_max', '--halving=5:1'], 'halving decides on held-out'),
    (['--grid=client_lr=0.1,0.2', '--select=test_max', '--widenings=1'], 'widenings goes with halving'),
    (['--study=sweeps/convergence-vsn', '--rounds=3'], 'or --halving=none'),
    (['--study=sweeps/convergence-vsn,sweeps/har'], 'different stages'),
])
def test_flags_that_do_not_fit_are_refused(asked, arguments, said):
    with pytest.raises(VirtualTfError, match=said):
        asked(*arguments)


@pytest.mark.parametrize('arguments, said', [(['--study=table9'], 'table2/mnist'), (['--processes=0'], 'processes')])
def test_a_bad_flag_is_one_sentence(tmp_path, arguments, said):
    done = subprocess.run([sys.executable, '-m', 'scripts.sweep', f'--output_dir={tmp_path / "out"}', *arguments],
                          capture_output=True, text=True)
    assert done.returncode == 2 and said in done.stderr and 'Traceback' not in done.stderr
    assert not (tmp_path / 'out').exists()


def test_a_grid_over_data_ends_with_what_its_points_share_and_what_they_do_not(tmp_path):
    done = subprocess.run(
        [sys.executable, '-m', 'scripts.sweep', '--method=fedavg', '--dataset=synthetic', '--synthetic_max_size=50',
         '--grid=synthetic_clients=2,3', '--clients_per_round=2', '--epochs=1', '--rounds=2', '--compile=graph',
         '--validation_fraction=0.2', '--processes=1', f'--output_dir={tmp_path}'], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / 'sweep.json').read_text(encoding='utf-8'))
    assert record['settings']['dataset'] == 'synthetic' and 'synthetic_clients' not in record['settings']
    assert [point['settings'] for point in record['groups']['fedavg']['points']] == [
        {'synthetic_clients': 2}, {'synthetic_clients': 3}]


def test_a_line_for_every_run_that_ends_and_for_what_runs_after_a_long_silence(tmp_path, capsys, monkeypatch):
    first, second = jobs = [Job(name, make_settings({'rounds': 10})) for name in 'ab']
    row = {S: 0.5, MT: float('nan')}
    stored_runs.write(tmp_path / 'a', first.settings, [row] * 10)
    now = [0.0]
    monkeypatch.setattr(live_table.time, 'monotonic', lambda: now[0])
    table = live_table.LiveTable(dict.fromkeys(jobs, 100.0), tmp_path)
    now[0] = 5.0
    table.show([second], [first])
    assert capsys.readouterr().out == '[1/2 runs, 5 s left]  a: round 10 of 10  S 50.0\n'
    table.show([second], [first])
    assert capsys.readouterr().out == ''
    now[0] += live_table.SILENCE + 1       # what runs is told when nothing has ended for long, if it has begun
    table.show([second], [first])
    assert capsys.readouterr().out == ''
    stored_runs.write(tmp_path / 'b', second.settings, [row] * 5, end=False)
    table.show([second], [first])          # 100 + 50 of 200 took 306 s, so 102 s are left
    assert capsys.readouterr().out == '[1/2 runs, 2 min left]  b: round 5 of 10  S 50.0\n'


@pytest.mark.parametrize('more, stages, widenings', [
    ([], [(8, 4), (20, 2)], 2), (['--halving=5:1'], [(5, 1)], 0), (['--halving=none'], [], 0),
    (['--widenings=1'], [(8, 4), (20, 2)], 1)])
def test_a_study_has_stages_of_its_own_unless_others_are_asked_for(asked, more, stages, widenings):
    groups, _ = asked('--study=sweeps/convergence-vsn', *more)
    assert (sweep.stages_of(flags.FLAGS), sweep.widenings_of(flags.FLAGS)) == (stages, widenings)
    assert {len(group.points) for group in groups} == {12}


def test_a_study_without_stages_plays_all_points_to_the_end(asked):
    asked('--study=sweeps/har')
    assert sweep.stages_of(flags.FLAGS) == []


def test_what_has_ended_is_looked_at_whoever_is_left_but_not_all_the_time(monkeypatch):
    now, looks = [0.0], []
    monkeypatch.setattr(sweep.time, 'monotonic', lambda: now[0])
    watch = sweep._Watch(lambda *_: None, lambda: looks.append(now[0]))
    watch(['a'], [])
    watch([], ['a'])                       # one process: between two runs nobody is busy
    now[0] = 1.0
    watch(['c'], ['a', 'b'])
    now[0] += sweep.PATIENCE
    watch(['c'], ['a', 'b'])
    now[0] += 2 * sweep.PATIENCE
    watch(['c'], ['a', 'b'])
    assert looks == [0.0, 1.0 + sweep.PATIENCE]


def test_a_point_that_learns_nothing_is_told_and_loses(tmp_path):
    done = subprocess.run(
        [sys.executable, '-m', 'scripts.sweep', '--method=fedavg', '--dataset=synthetic', '--synthetic_max_size=50',
         '--synthetic_clients=3', '--grid=client_lr=0.1,1e30', '--clients_per_round=2', '--epochs=2', '--rounds=4',
         '--compile=graph', '--nobacktracking', '--validation_fraction=0.2', '--processes=1',
         f'--output_dir={tmp_path}'], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 'nothing is learnt' in done.stdout and 'it counts as the worst point of its grid' in done.stdout
    found = json.loads((tmp_path / 'sweep.json').read_text(encoding='utf-8'))['groups']['fedavg']
    assert found['best'] == {'client_lr': 0.1} and [point['score'] for point in found['points']][1] is None
