"""The paper's statements about its curves and tables, each with our figures.

    python -m scripts.statements     # from runs/, results/table2.json and the curves kept in results/figures
"""
import pathlib

from absl import flags

from virtual_tf.core import safe_files
from virtual_tf.report import paper_tables, statements, text_tables
from virtual_tf.report.sources import OUTPUT_DIR, Source
from virtual_tf.studies import kept

from . import entry


def define_flags():
    flags.DEFINE_string('output_dir', OUTPUT_DIR, 'root of the runs\' folders, as scripts.sweep writes them')
    flags.DEFINE_string('results_dir', 'results', 'folder that statements.md is written to')


def main(_):
    values = flags.FLAGS
    folder = pathlib.Path(values.results_dir).expanduser()
    source = Source(pathlib.Path(values.output_dir).expanduser(), kept=kept.load(folder / 'figures' / kept.FILE))
    text = statements.report(source, paper_tables.summaries_in(folder, 2))
    safe_files.check_writable(folder, 'results_dir')
    text_tables.write_text(folder / 'statements.md', text)
    print(f'{text}\nwritten: {folder / "statements.md"}')


if __name__ == '__main__':
    entry.run(main, define_flags)
