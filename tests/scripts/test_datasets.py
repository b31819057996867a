"""The table of data sets as a user starts it."""
import os
import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).parent.parent.parent


def start(home, *flags):
    return subprocess.run([sys.executable, '-m', 'scripts.datasets', *map(str, flags)], cwd=ROOT, text=True,
                          capture_output=True, env=os.environ | {'HOME': str(home)})


def test_shows_what_is_here_and_says_what_is_not(tmp_path):
    np.savez(tmp_path / 'mine.npz', x=np.zeros([16, 2]), y=np.arange(16) % 2, client=np.repeat(['ann', 'bob'], 8))
    done = start(tmp_path, f'--datasets=watch,npz:{tmp_path}/mine.npz,har', f'--data_dir={tmp_path}/none',
                 f'--output={tmp_path}/picture.png')
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    watch = next(line for line in lines if line.startswith('watch '))
    assert watch.split() == ['watch', *'––––', '20', '1,169', '58', '12', '1,560', '78', '15']
    assert any(line.startswith('npz:') and line.split()[5:8] == ['2', '12', '6'] for line in lines)
    assert any(line.startswith('har: ') and 'by hand' in line for line in lines)
    assert (tmp_path / 'picture.png').is_file() and not (tmp_path / 'none').exists()


def test_nothing_to_show_is_one_sentence(tmp_path):
    for flags in (['--datasets=har', f'--data_dir={tmp_path}/none'], ['--datasets=nonsense']):
        done = start(tmp_path, *flags, f'--output={tmp_path}/picture.png')
        assert done.returncode == 2 and done.stderr.startswith('error: ') and done.stderr.count('\n') == 1
    assert not any((tmp_path / name).exists() for name in ('none', 'picture.png', '.cache/virtual_tf'))
