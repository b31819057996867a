import math
import subprocess
import sys

import pytest
from absl import flags
from absl.testing import flagsaver

from scripts import sweep
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import make_settings
from virtual_tf.studies import workers


def test_axes_of_a_grid():
    assert sweep.parse_grid(['client_lr=0.1,0.2,0.1', 'prune=0,50']) == {'client_lr': (0.1, 0.2), 'prune': (0, 50)}
    assert sweep.parse_grid(['prune_score=authors,update']) == {'prune_score': ('authors', 'update')}
    for text, said in (('nonsense=1', 'nonsense'), ('client_lr', 'client_lr'), ('prune=0.5', 'int'),
                       ('seed=1', 'seed')):
        with pytest.raises(VirtualTfError, match=said):
            sweep.parse_grid([text])
    with pytest.raises(VirtualTfError, match='client_lr twice'):
        sweep.parse_grid(['client_lr=0.1', 'client_lr=0.2'])


def test_durations():
    assert [sweep.duration(seconds) for seconds in (7, 600, 7200)] == ['7 s', '10 min', '2.0 h']
    assert sweep.duration(math.nan) == 'an unknown time'


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
    group, *others = asked('--study=kl', '--rounds=3', '--seed=1')
    assert len(others) == 6 and [job.settings.rounds for job in group.jobs()] == [3]
    assert [job.settings.seed for job in group.jobs()] == [1]


@pytest.mark.parametrize('arguments, said', [
    (['--study=kl', '--grid=client_lr=0.1'], 'study and grid exclude'),
    (['--study=kl', '--method=virtual'], 'study and method exclude'),
    (['--method=fedavg', '--grid=client_lr=0.1,0.2'], 'add --validation_fraction=0.2'),
    (['--study=sweeps/har', '--client_lr=0.05'], 'client_lr is an axis of sweeps/har/fedavg'),
    (['--study=kl', '--kl_weight=0.1'], 'kl_weight is what kl/1e-06 has a value of its own for'),
    (['--study=table2/mnist', '--dataset=har'], 'dataset is what table2/mnist/fedavg has'),
    (['--ray_address=here:1'], 'add that'),
    (['--private_baselines'], 'private_baselines'),
    (['--grid=nonsense=1'], 'nonsense'),
    (['--method=virtual,nonsense'], 'nonsense'),
    (['--seed=x'], 'seed must be a whole number'),
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


def test_a_group_s_report_names_the_best_and_the_edge(monkeypatch):
    settings = make_settings({})
    points = {(('client_lr', rate),): {0: workers.Job(str(rate), settings)} for rate in (0.1, 0.2, 0.4)}
    monkeypatch.setattr(sweep.workers, 'score', lambda job, *_: {'0.1': 3.0, '0.2': 2.0, '0.4': 1.0}[job.name])
    text, record = sweep.report(sweep.Group('g', points), None, 'val')
    assert record['best'] == {'client_lr': 0.1} and record['edges'] == ['client_lr']
    assert text.splitlines()[1].split() == ['3.00', 'client_lr=0.1', '<-', 'best'] and 'edge of the grid' in text


def test_an_edge_that_cannot_be_widened_is_told_apart(monkeypatch):
    points = {(('damping', damping),): {0: workers.Job(str(damping), make_settings({}))} for damping in (0.5, 1.0)}
    monkeypatch.setattr(sweep.workers, 'score', lambda job, root, select: float(job.name))
    text, _ = sweep.report(sweep.Group('g', points), None, 'val')
    assert '1 is the end of what it may be' in text and 'widen' not in text


@pytest.fixture
def two_runs(tmp_path):
    """Jobs of ten rounds each, of which the first has played eight before this sweep began."""
    jobs = [workers.Job(name, make_settings({'rounds': 10})) for name in 'ab']
    play(tmp_path, jobs[0], 8)
    return jobs


def play(root, job, rounds):
    (root / job.name).mkdir(exist_ok=True)
    (root / job.name / 'metrics.jsonl').write_text('{"server/accuracy": 0.5, "mt/accuracy": null}\n' * rounds)


def test_time_left_is_of_the_rounds_that_are_left(two_runs, tmp_path, monkeypatch, capsys):
    first, second = two_runs
    monkeypatch.setattr(sweep.data, 'load', lambda data_dir, settings: None)
    monkeypatch.setattr(sweep.driver, 'check_fits', lambda settings, dataset: None)
    monkeypatch.setattr(sweep.experiments, 'estimate', lambda settings, dataset: 100.0)
    costs = sweep._costs(two_runs, tmp_path, 'nowhere')
    assert [costs[job] for job in two_runs] == pytest.approx([20.0, 100.0])     # two rounds of ten, and all
    table = sweep.LiveTable(costs, tmp_path)
    table._started -= 5.0
    play(tmp_path, first, 10)
    table.show([second], [first])      # 20 of 120 took 5 s
    assert capsys.readouterr().out == '[1/2 runs, 25 s left]  a: round 10 of 10  S 50.0\n'
    table.show([second], [first])
    assert capsys.readouterr().out == ''
    table._silent_since -= 301.0       # what runs is told when nothing has ended for long, if it has begun
    table.show([second], [first])
    assert capsys.readouterr().out == ''
    play(tmp_path, second, 5)
    table.show([second], [first])      # 20 + 50 of 120
    assert capsys.readouterr().out == '[1/2 runs, 4 s left]  b: round 5 of 10  S 50.0\n'


def test_a_line_that_misses_the_best_point_of_its_grid_is_named():
    line = {'best': {'client_lr': 0.1, 'server_lr': 2.0}}
    records = {'a': {'best': {'client_lr': 0.1, 'server_lr': 1.0}}, 'a/server_lr': line,
               'b': {'best': {'client_lr': 0.2, 'server_lr': 2.0}}, 'b/server_lr': line}
    assert sweep.misplaced_lines(records) == ['b']
