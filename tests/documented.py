"""Code blocks of the documents, and registries that forget what a test has registered."""
import pathlib
import re

import pytest

from virtual_tf.core import plugins
from virtual_tf.methods import registry
from virtual_tf.networks import models
from virtual_tf.simulator import metrics

ROOT = pathlib.Path(__file__).parents[1]
_TABLES = (registry.METHODS, models.MODELS, metrics.METRICS, plugins._loaded)


def block(page, line):
    """The Python block of a page that contains this line."""
    text = (ROOT / page).read_text(encoding='utf-8')
    found, = (code for code in re.findall(r'```python\n(.*?)```', text, re.DOTALL) if line in code)
    return found


@pytest.fixture
def registries():
    """What is registered in a test is gone after it."""
    kept = [dict(table) for table in _TABLES]
    yield
    for table, contents in zip(_TABLES, kept):
        table.clear()
        table.update(contents)
