"""The environment that the shell scripts share: installed when requirements have changed, and only then."""
import pathlib
import shutil
import subprocess
import sys

import pytest

SCRIPTS = pathlib.Path(__file__).parent.parent.parent / 'scripts'


def test_packages_are_installed_when_requirements_change_and_only_then(tmp_path):
    shutil.copytree(SCRIPTS, tmp_path / 'scripts', ignore=shutil.ignore_patterns('*.py', '__pycache__'))
    python = tmp_path / '.venv' / 'bin' / 'python'
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nexit 0\n')
    python.chmod(0o755)
    for name in ('requirements.txt', 'requirements-dev.txt', 'setup.py'):
        (tmp_path / name).write_text(f'A of {name}\n')

    def installs(*files):
        command = f'source scripts/environment.sh && prepare {" ".join(files)}'
        return 'installing' in subprocess.run(['bash', '-c', command], cwd=tmp_path, check=True, text=True,
                                              capture_output=True).stdout

    small, large = ('requirements.txt',), ('requirements.txt', 'requirements-dev.txt')
    assert installs(*small) and not installs(*small)
    assert installs(*large) and not installs(*small) and not installs(*large)
    (tmp_path / 'requirements.txt').write_text('B\n')
    assert installs(*small)
    (tmp_path / 'requirements.txt').write_text('A of requirements.txt\n')
    assert installs(*small) and installs(*large) and not installs(*small)


def find_python(folder, **versions):
    """What find_python says where there are Pythons of these versions alone: {name: (major, minor)}"""
    for name, (major, minor) in versions.items():
        path = folder / name.replace('_', '.')
        # Asked with -c, it is as old as its name says: the question itself, with another answer to sys.version_info.
        told = f'import sys; sys.version_info = ({major}, {minor}, 0)'
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{told}\n$2"\n')
        path.chmod(0o755)
    ask = f'PATH={folder}; source {SCRIPTS}/environment.sh; find_python'
    done = subprocess.run(['/bin/bash', '-c', ask], env={'PATH': '/usr/bin:/bin'}, text=True, capture_output=True)
    return done.stdout.strip()


@pytest.mark.parametrize('versions, found', [
    ({'python3_13': (3, 13), 'python3_12': (3, 12)}, 'python3.12'), ({'python3_13': (3, 13)}, 'python3.13'),
    ({'python3': (3, 12)}, 'python3'), ({'python3': (3, 10), 'python3_13': (3, 13)}, 'python3.13'),
    ({'python3': (3, 14)}, ''), ({}, '')])
def test_whichever_python_is_there_serves(tmp_path, versions, found):
    assert find_python(tmp_path, **versions) == found
