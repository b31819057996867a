"""The model of docs/extending.md, as a user would make it."""
import pathlib
import re
import subprocess
import sys

import pytest

from virtual_tf.core import plugins
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.networks import models

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def plugin(tmp_path):
    page = (ROOT / 'docs' / 'extending.md').read_text(encoding='utf-8')
    path = tmp_path / 'my_model.py'
    path.write_text(re.search(r'```python\n(.*?)```', page, re.DOTALL).group(1), encoding='utf-8')
    return path


def test_the_documented_model_runs_bayesian_and_deterministic(plugin, tmp_path):
    run = subprocess.run(
        [sys.executable, '-m', 'scripts.run', f'--plugins={plugin}', '--model=normed', '--method=virtual,fedavg',
         '--private=residual', '--rounds=2', '--epochs=2', '--histogram_every=0', '--compile=graph',
         f'--output_dir={tmp_path / "runs"}'], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert {path.name for path in (tmp_path / 'runs').iterdir() if path.is_dir()} == {'virtual-residual', 'fedavg'}


def test_a_registered_model_has_the_weights_of_its_layers(plugin):
    plugins.load(plugin)
    shapes = models.build('normed', (5,), 3).shapes()
    assert shapes == {'dense_1/kernel': (5, 64), 'dense_2/kernel': (64, 3)}


def test_a_missing_plugin_is_named():
    with pytest.raises(VirtualTfError, match=r'no file .*nowhere\.py'):
        plugins.load('nowhere.py')


@pytest.mark.parametrize('source, line, error', [
    ('import virtual_tf as vt\nvt.nothing\n', 2, "AttributeError: module 'virtual_tf' has no attribute 'nothing'"),
    ('x = 1\n\ndef f():\n    return x / 0\n\nf()\n', 4, 'ZeroDivisionError: division by zero'),
    ('x = 1\ndef f(:\n', 2, 'SyntaxError: invalid syntax'),
    ('import nowhere_at_all\n', 1, "ModuleNotFoundError: No module named 'nowhere_at_all'"),
    ('raise ValueError("first\\nsecond")\n', 1, 'ValueError: first'),
    ('import virtual_tf as vt\n\n@vt.register_model("mlp")\ndef mine(*shapes): pass\n', 3,
     "model 'mlp' is there already; register yours under another name")])
def test_a_plugin_that_fails_is_one_sentence_with_file_line_and_error(tmp_path, source, line, error):
    path = tmp_path / 'broken_plugin.py'
    path.write_text(source)
    with pytest.raises(VirtualTfError) as caught:
        plugins.load(path)
    assert str(caught.value).startswith(f'plugins: {path}, line {line}: {error}')
    assert str(caught.value).endswith('; correct the file, or leave it out') and '\n' not in str(caught.value)
    assert path.name not in plugins.digests() and 'broken_plugin' not in sys.modules


def test_a_file_that_is_no_python_is_refused(tmp_path):
    (tmp_path / 'model.txt').write_text('')
    with pytest.raises(VirtualTfError, match=r'model\.txt is no Python file; give one whose name ends in \.py'):
        plugins.load(tmp_path / 'model.txt')


@pytest.mark.parametrize('source, sentence', [
    ('raise KeyError("gone")\n', "line 1: KeyError: 'gone'"),
    ('import virtual_tf as vt\n\n@vt.register_model("mine")\n'
     'def mine(shape, classes, **options):\n    return (vt.layers.Dense(classes + 1),)\n',
     "layer 'dense_1' of model 'mine' is the last and gives [8] for an example, where this data needs [7]")])
def test_a_command_ends_with_the_sentence_and_code_2(tmp_path, source, sentence):
    path = tmp_path / 'wrong.py'
    path.write_text(source)
    done = subprocess.run([sys.executable, '-m', 'scripts.run', f'--plugins={path}', '--model=mine', '--rounds=1',
                           f'--output_dir={tmp_path / "runs"}'], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and 'Traceback' not in done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith('error: ') and sentence in line]
