import math
import subprocess
import sys

import pytest
from absl import flags
from absl.testing import flagsaver

from scripts import sweep
from virtual_tf import sweeps
from virtual_tf.settings import make_settings
from virtual_tf.types import VirtualTfError


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
    points = {(('client_lr', rate),): {0: sweeps.Job(str(rate), settings)} for rate in (0.1, 0.2, 0.4)}
    monkeypatch.setattr(sweep.sweeps, 'score', lambda job, root, select: {'0.1': 3.0, '0.2': 2.0, '0.4': 1.0}[job.name])
    text, record = sweep.report(sweep.Group('g', points), None, 'val')
    assert record['best'] == {'client_lr': 0.1} and record['edges'] == ['client_lr']
    assert text.splitlines()[1].split() == ['3.00', 'client_lr=0.1', '<-', 'best'] and 'edge of the grid' in text


def test_a_line_that_misses_the_best_point_of_its_grid_is_named():
    line = {'best': {'client_lr': 0.1, 'server_lr': 2.0}}
    records = {'a': {'best': {'client_lr': 0.1, 'server_lr': 1.0}}, 'a/server_lr': line,
               'b': {'best': {'client_lr': 0.2, 'server_lr': 2.0}}, 'b/server_lr': line}
    assert sweep.misplaced_lines(records) == ['b']
