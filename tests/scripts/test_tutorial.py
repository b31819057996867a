import time

import nbformat
import pytest

from scripts import make_tutorial


@pytest.fixture(scope='module')
def notebook():
    return nbformat.read(make_tutorial.NOTEBOOK, as_version=4)


def test_script_and_notebook_are_the_same_and_the_outputs_are_stored(notebook):
    made = make_tutorial.make(make_tutorial.SOURCE.read_text(encoding='utf-8'))
    assert [(cell.cell_type, cell.source) for cell in made.cells] == [
        (cell.cell_type, cell.source) for cell in notebook.cells]
    outputs = [output for cell in notebook.cells if cell.cell_type == 'code' for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == 'error']
    assert any('image/png' in output.get('data', {}) for output in outputs)
    printed = ''.join(output.get('text', '') for output in outputs)
    assert printed.count('same probabilities: True') == 2


@pytest.mark.slow
def test_the_notebook_plays_in_three_minutes():
    made = make_tutorial.make(make_tutorial.SOURCE.read_text(encoding='utf-8'))
    started = time.monotonic()
    make_tutorial.play(made)
    assert time.monotonic() - started < 180
