"""Writes one self-contained HTML page about one or several runs.

    python -m scripts.report RUN [RUN …] --output=report.html
"""
import pathlib

from absl import flags

from virtual_tf.core import safe_files
from virtual_tf.report import run_page

from . import entry, opening


def define_flags():
    opening.define_flags(most=100)
    flags.DEFINE_string('output', 'report.html', 'the page to write')


def main(arguments):
    path = pathlib.Path(flags.FLAGS.output).expanduser()
    safe_files.check_writable(path.parent, 'output')
    page = run_page.page(opening.open_all(arguments))
    with safe_files.replacing(path) as file:
        file.write(page.encode())
    print(f'written: {path.resolve()}, {len(page.encode()):,} bytes')


if __name__ == '__main__':
    entry.run(main, define_flags)
