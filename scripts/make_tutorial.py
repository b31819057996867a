"""Makes docs/tutorial.ipynb of docs/tutorial.py, and plays it so that its outputs are stored.

    python -m scripts.make_tutorial
"""
import pathlib

import nbclient
import nbformat

from . import entry

SOURCE = pathlib.Path(__file__).parent.parent / 'docs' / 'tutorial.py'
NOTEBOOK = SOURCE.with_suffix('.ipynb')


def cells(text):
    """[(markdown or code, its text)] of a script whose cells begin with # %%."""
    for part in text.split('# %%')[1:]:
        head, _, body = part.partition('\n')
        if 'markdown' in head:
            body = '\n'.join(line.removeprefix('#').removeprefix(' ') for line in body.splitlines())
        yield 'markdown' if 'markdown' in head else 'code', body.strip('\n')


def make(text):
    """The notebook of a script, not played yet; ids by position, so that only what changes differs."""
    new = {'markdown': nbformat.v4.new_markdown_cell, 'code': nbformat.v4.new_code_cell}
    made = [new[kind](body, id=f'cell-{i}') for i, (kind, body) in enumerate(cells(text))]
    return nbformat.v4.new_notebook(cells=made, metadata={
        'kernelspec': {'name': 'python3', 'display_name': 'Python 3', 'language': 'python'}})


def play(notebook):
    """Runs its cells, with the outputs, from the root of the checkout."""
    root = str(SOURCE.parent.parent)
    nbclient.NotebookClient(notebook, timeout=600, resources={'metadata': {'path': root}}).execute()


def main(_):
    notebook = make(SOURCE.read_text(encoding='utf-8'))
    play(notebook)
    for cell in notebook.cells:
        cell.metadata.pop('execution', None)     # times of the day
        if cell.cell_type == 'code':
            cell.outputs = [output for output in cell.outputs if output.get('name') != 'stderr']
    notebook.metadata.pop('language_info', None)
    nbformat.write(notebook, NOTEBOOK)
    print(f'written: {NOTEBOOK}')


if __name__ == '__main__':
    entry.run(main)
