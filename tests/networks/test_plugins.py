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
