"""The paper's tables with our numbers beside the published ones, from run folders.

    python -m scripts.tables --table=2 --data_dir=DATA          # what is there; names the commands for what is missing
    python -m scripts.tables --table=2 --run --data_dir=DATA    # makes what is missing first
    python -m scripts.tables --table=uncertainty --run --data_dir=DATA    # calibration, unseen clients, foreign data
    python -m scripts.tables --docs                             # docs/results.md and README.md's digest, from results/

    python -m scripts.tables --table=2 --run --data_dir=DATA --validation_fraction=0.2 --output_dir=runs/val \\
        --results_dir=results/val                               # holds data out, so that it can choose the round: val

Writes tableN.md, tableN.tex and, for tables of runs, tableN.json with the summaries of every seed. A summary that is in
there already stands for a run of the same settings whose folder is gone.
"""
import pathlib

from absl import flags

from virtual_tf.core import safe_files
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import COMMON
from virtual_tf.methods import registry
from virtual_tf.report import (
    data_table,
    inference_table,
    paper_tables,
    precision_table,
    pruning_table,
    results_page,
    text_tables,
    uncertainty_table,
)
from virtual_tf.report.sources import Source
from virtual_tf.studies import grids

from . import entry, run, sweep

STUDIES = {module.STUDY: module for module in (inference_table, precision_table, uncertainty_table)}
DOCS, README = pathlib.Path('docs'), pathlib.Path('README.md')


def define_flags():
    sweep.define_flags()
    flags.adopt_module_key_flags(sweep)
    flags.DEFINE_enum('table', None, ['1', '2', '3', '4', *STUDIES], 'which table')
    flags.DEFINE_bool('run', False, 'make the runs that are missing')
    flags.DEFINE_string('results_dir', 'results', 'folder that the table is written to')
    flags.DEFINE_bool('docs', False, 'write docs/results.md and the digest in README.md, below the present folder')


def check_flags(values):
    """Refuses what a table has of its own, and to mix runs of other settings into the table that stands."""
    if not values.table and not values.docs:
        raise VirtualTfError(f'table must be 1, 2, 3, 4, {" or ".join(STUDIES)}; or give --docs')
    for name in ('study', 'grid', 'method', 'private', 'private_baselines'):
        if flags.FLAGS[name].present:
            raise VirtualTfError(f'{name} is for scripts.sweep: a table has its own; leave it out')
    settings = COMMON | registry.own_settings()
    given = [name for name in run.given_settings(values) if not settings[name].free or name == 'rounds']
    if given and not flags.FLAGS['results_dir'].present:
        raise VirtualTfError(f'{", ".join(given)}: a table of runs with other settings needs a folder of its own; add '
                             '--results_dir, and --output_dir for the runs')


def write_table(table, values, folder):
    """Makes the runs that are missing, if that is wanted, and writes the table; returns its Markdown."""
    root, given = pathlib.Path(values.output_dir).expanduser(), run.given_settings(values)
    seeds, source = sweep.seeds_of(values), Source(root, values.data_dir, given)
    if table == '1':
        found = data_table.load(values.data_dir, download=bool(values.download))
        return text_tables.write(folder / 'table1', *data_table.table_of_data(*found))
    if table == '3':
        groups = grids.of_studies(['table3'], given, seeds)
        if values.run:
            sweep.play([job for group in groups for job in group.jobs()], values, root)
        return pruning_table.write(folder, groups, source)
    if table in STUDIES:
        jobs = STUDIES[table].jobs_of(given, seeds)
        if values.run:
            sweep.play([job for of_seeds in jobs.values() for job in of_seeds.values()], values, root)
        return STUDIES[table].write(folder, jobs, source)
    table = int(table)
    jobs = paper_tables.jobs_of(table, given, seeds)
    if values.run:
        _, missing = paper_tables.collect(jobs, root, paper_tables.summaries_in(folder, table))
        sweep.play([jobs[key][seed] for key, lacking in missing.items() for seed in lacking], values, root)
    return paper_tables.write(folder, table, jobs, source)


def write_docs(results):
    """The page of results, and the digest between its marks."""
    remarks = DOCS / 'results-remarks.md'
    for path in (README, remarks):
        if not path.exists():
            raise VirtualTfError(f'docs: there is no {path} here; start this in the folder of the sources')
    text_tables.write_text(README, results_page.with_digest(
        README.read_text(encoding='utf-8'), results_page.digest(results)))
    text_tables.write_text(DOCS / 'results.md', results_page.results_page(results, remarks))


def main(_):
    values = flags.FLAGS
    check_flags(values)
    run.load_plugins(values)
    folder = pathlib.Path(values.results_dir).expanduser()
    safe_files.check_writable(folder, 'results_dir')
    if values.table:
        text = write_table(values.table, values, folder)
        name = values.table if values.table in STUDIES else f'table{values.table}'
        print(f'{text}\nwritten: {folder / name}.md and .tex')
    if values.docs:
        write_docs(folder)
        print(f'written: {DOCS / "results.md"} and the digest in {README}')


if __name__ == '__main__':
    entry.run(main, define_flags)
