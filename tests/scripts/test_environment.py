"""The environment that the shell scripts share: installed when requirements have changed, and only then."""
import pathlib
import shutil
import subprocess

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
