"""scripts/deploy_local.sh with stand-ins for Flower's programs; tests/deploy has the real ones."""
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
STAND_INS = {
    'python': f'exec {sys.executable} "$@"',
    'flower-superlink': f'''touch started
exec {sys.executable} -c "
import socket, sys, time
one = socket.socket()
one.bind(('127.0.0.1', int(sys.argv[sys.argv.index('--port') + 1])))
one.listen()
time.sleep(60)" "$@"''',
    'flower-supernode': 'exec sleep 60',
    'flwr': '''echo "$@" > told
echo 'INFO :      Start `flwr-serverapp` process'
echo 'INFO 2026-01-01 00:00:00,000 2 clients are there'
cat rows | while read -r row; do echo "$row" >> out/metrics.jsonl; sleep 0.1; done
echo 'WARNING 2026-01-01 00:00:01,000 round 2: client 1 failed'
cat end'''}
ROW = '{"round": %d, "server/accuracy": 0.5, "mt/accuracy": %s, "train/loss": 1.25}\n'


@pytest.fixture
def checkout(tmp_path):
    """A folder like the project's root, in which everything is installed and Flower does nothing."""
    shutil.copytree(ROOT / 'scripts', tmp_path / 'scripts', ignore=shutil.ignore_patterns('*.py', '__pycache__'))
    (tmp_path / 'virtual_tf').symlink_to(ROOT / 'virtual_tf')
    (tmp_path / '.venv' / 'bin').mkdir(parents=True)
    for name, body in STAND_INS.items():
        path = tmp_path / '.venv' / 'bin' / name
        path.write_text(f'#!/bin/bash\n{body}\n')
        path.chmod(0o755)
    files = ('requirements.txt', 'requirements-flower.txt', 'setup.py')
    for name in files:
        (tmp_path / name).write_text('')
    (tmp_path / '.venv' / 'installed').write_text(
        subprocess.run(['sha256sum', *files], cwd=tmp_path, capture_output=True, text=True, check=True).stdout)
    return tmp_path


def deploy(checkout, *pairs):
    return subprocess.run(['bash', 'scripts/deploy_local.sh', '-n', '2', '-o', 'out', *pairs], cwd=checkout,
                          capture_output=True, text=True, timeout=120)


def test_every_round_is_a_line_and_flowers_own_log_is_in_its_file(checkout):
    (checkout / 'out').mkdir()
    (checkout / 'out' / 'metrics.jsonl').write_text(ROW % (1, 0.25))     # of a run that is continued
    (checkout / 'rows').write_text(ROW % (2, 0.75) + ROW % (3, 'null'))
    (checkout / 'end').write_text('')
    flwr = checkout / '.venv' / 'bin' / 'flwr'
    flwr.write_text(flwr.read_text() + 'touch out/summary.json\n')
    done = deploy(checkout, 'rounds=3', 'dataset=synthetic', 'synthetic_clients=2')
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    # The server's log and the rounds come by two ways, so their order is open.
    assert [line for line in lines if line.startswith('round')] == [
        'round 2/3, S=50.0, MT=75.0, loss=1.250', 'round 3/3, S=50.0, MT=?, loss=1.250']
    assert {line for line in lines if not line.startswith('round')} == {
        'INFO 2026-01-01 00:00:00,000 2 clients are there', 'WARNING 2026-01-01 00:00:01,000 round 2: client 1 failed',
        f'results: {checkout / "out"}'}
    assert 'flwr-serverapp' in (checkout / 'out' / 'logs' / 'run.log').read_text()
    assert (checkout / 'told').read_text().strip().endswith(
        f'--run-config clients=2 output_dir="{checkout / "out"}" rounds=3 dataset="synthetic" synthetic_clients=2 '
        '--stream')


@pytest.mark.parametrize('pairs, sentence', [
    (['roundz=2'], "error: run configuration 'roundz' is unknown; did you mean 'rounds'?"),
    (['own_settings={"boldness": 1}'], "error: run configuration 'boldness' is unknown"),
    (['seed=1', 'rounds=0'], 'error: rounds must be at least 1, got 0')])
def test_a_wrong_key_or_value_is_named_before_anything_starts(checkout, pairs, sentence):
    done = deploy(checkout, *pairs)
    assert done.returncode == 2 and done.stderr.startswith(sentence) and len(done.stderr.splitlines()) == 1
    assert done.stdout == '' and not (checkout / 'started').exists() and not (checkout / 'out').exists()


@pytest.mark.parametrize('end, reason', [
    ('Traceback\nvirtual_tf.core.errors.VirtualTfError: put it right\nerror: 201\n', 'put it right'),
    ('╭─ Error ────╮\n│ [code: 15] Invalid.   │\n╰────────────╯\n', '[code: 15] Invalid.')])
def test_what_ended_a_run_is_its_last_sentence(checkout, end, reason):
    (checkout / 'rows').write_text('')
    (checkout / 'end').write_text(end)
    done = deploy(checkout, 'rounds=1')
    assert done.returncode == 1 and done.stderr.startswith(f'error: {reason}')
