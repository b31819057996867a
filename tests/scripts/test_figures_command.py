"""The figures as a user starts the command."""
import pathlib
import subprocess
import sys

import matplotlib.image
import stored_runs

from virtual_tf.studies import experiments, kept

ROOT = pathlib.Path(__file__).parent.parent.parent


def write_run(folder, values):
    """One seed of VIRTUAL on MNIST, every metric of which has these values by round."""
    stored_runs.write_seeds(folder / 'runs', experiments.table2('mnist', 'virtual'), {
        0: [dict.fromkeys(kept.KEYS, value) for value in values]})


def start(*flags):
    return subprocess.run([sys.executable, '-m', 'scripts.figures', *map(str, flags)], cwd=ROOT, text=True,
                          capture_output=True)


def test_the_command_writes_what_can_be_drawn_and_names_the_rest(tmp_path):
    write_run(tmp_path, [2.0, 1.0])
    done = start(f'--output_dir={tmp_path}/runs', f'--results_dir={tmp_path}/out', '--figure=kl,curves,accuracy')
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / 'out' / 'figures').iterdir()) == [
        *(f'{name}.{end}' for name in ('accuracy', 'curves') for end in ('pdf', 'png', 'txt')), kept.FILE]
    assert 'pruned' not in done.stderr      # nor what else the font library has to say
    content = (tmp_path / 'out' / 'figures' / 'curves.pdf').read_bytes()
    assert content.startswith(b'%PDF') and b'/Type3' not in content
    size = matplotlib.image.imread(tmp_path / 'out' / 'figures' / 'curves.png').shape
    assert size[1] == 150 * 3.6      # dots an inch, inches of one column
    lines = [line for line in done.stdout.splitlines() if line.startswith('missing')]
    assert lines[0].startswith('missing for kl: ')
    assert sum('--study=table2/har ' in line for line in lines) == 1 and 'curves, accuracy' in lines[1]


def test_what_was_drawn_once_can_be_drawn_without_its_folders(tmp_path):
    write_run(tmp_path, [2.0] * 60)
    for root in ('runs', 'gone'):
        done = start(f'--output_dir={tmp_path / root}', f'--results_dir={tmp_path}/out', '--figure=curves')
        assert done.returncode == 0, done.stderr
        assert 'mnist, mlp, 60 rounds, C = 10, E = 20: seed 0' in done.stdout
        assert 'table2/mnist/virtual (seeds 1, 2)' in done.stdout


def test_nothing_to_draw_and_an_unknown_figure_are_one_sentence(tmp_path):
    for flag, words in ((f'--output_dir={tmp_path}', 'no finished run'), ('--figure=nonsense', 'figure must be of kl')):
        done = start(flag, f'--results_dir={tmp_path}/out')
        assert done.returncode == 2
        errors = [line for line in done.stderr.splitlines() if line.startswith('error: ')]
        assert len(errors) == 1 and words in errors[0]
    assert not (tmp_path / 'out').exists()
