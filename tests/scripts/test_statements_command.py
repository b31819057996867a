"""The statements as a user of a fresh clone starts the command."""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent


def start(*flags):
    return subprocess.run([sys.executable, '-m', 'scripts.statements', *flags], cwd=ROOT, text=True,
                          capture_output=True)


def test_a_fresh_clone_gives_the_text_that_it_came_with(tmp_path):
    results = ROOT / 'results'
    (tmp_path / 'figures').mkdir()
    for name in ('table2.json', 'figures/histories.jsonl'):
        shutil.copy(results / name, tmp_path / name)
    done = start(f'--output_dir={tmp_path}/none', f'--results_dir={tmp_path}')
    assert done.returncode == 0, done.stderr
    text = (tmp_path / 'statements.md').read_text(encoding='utf-8')
    assert text == (results / 'statements.md').read_text(encoding='utf-8') and done.stdout.startswith(text)


def test_nothing_to_say_is_one_sentence(tmp_path):
    done = start(f'--output_dir={tmp_path}', f'--results_dir={tmp_path}/results')
    assert done.returncode == 2 and 'no finished run' in done.stderr and 'Traceback' not in done.stderr
    assert not (tmp_path / 'results').exists()
