"""The paper's tables with our numbers beside the published ones, from run folders.

    python -m scripts.tables --table=2 --data_dir=DATA          # what is there; names the commands for what is missing
    python -m scripts.tables --table=2 --run --data_dir=DATA    # makes what is missing first
    python -m scripts.tables --table=uncertainty --run --data_dir=DATA    # calibration, unseen clients, foreign data
    python -m scripts.tables --table=rivals --run --data_dir=DATA         # the methods that came after VIRTUAL
    python -m scripts.tables --table=convergence --run --data_dir=DATA    # Table 2 at convergence, each cell decided
    python -m scripts.tables --all --run --data_dir=DATA        # every table, the cheapest first, and the documents
    python -m scripts.tables --docs                             # docs/results.md and README.md's digest, from results/

    python -m scripts.tables --table=2 --run --data_dir=DATA --validation_fraction=0.2 --output_dir=runs/val \\
        --results_dir=results/val                               # holds data out, so that it can choose the round: val

Writes tableN.md, tableN.tex and, for tables of runs, tableN.json with the summaries of every seed. A summary that is in
there already stands for a run of the same settings whose folder is gone.
"""
import contextlib
import pathlib

from absl import flags

from virtual_tf.core import safe_files, strict_json
from virtual_tf.core.errors import RunError, VirtualTfError
from virtual_tf.core.settings import COMMON
from virtual_tf.methods import registry
from virtual_tf.report import (
    convergence_table,
    data_table,
    inference_table,
    paper_tables,
    precision_table,
    pruning_table,
    results_page,
    rivals_table,
    text_tables,
    uncertainty_table,
)
from virtual_tf.report.sources import Source
from virtual_tf.studies import costs, grids

from . import entry, run, sweep

STUDIES = {module.STUDY: module for module in (
    convergence_table, inference_table, precision_table, uncertainty_table, rivals_table)}
TABLES = ['1', '2', '3', '4', *STUDIES]
DOCS, README = pathlib.Path('docs'), pathlib.Path('README.md')


def define_flags():
    sweep.define_flags()
    flags.adopt_module_key_flags(sweep)
    flags.DEFINE_enum('table', None, TABLES, 'which table')
    flags.DEFINE_bool('all', False, 'all tables, the cheapest first, and then the documents')
    flags.DEFINE_bool('run', False, 'make the runs that are missing')
    flags.DEFINE_string('results_dir', 'results', 'folder that the table is written to')
    flags.DEFINE_bool('docs', False, 'write docs/results.md and the digest in README.md, below the present folder')


def check_flags(values):
    """Refuses what a table has of its own, and to mix runs of other settings into the table that stands."""
    if not values.table and not values.docs and not values.all:
        raise VirtualTfError(f'table must be 1, 2, 3, 4, {" or ".join(STUDIES)}; or give --docs, or --all')
    if values.all and not values.run:
        raise VirtualTfError('all plays what is missing of every table; add --run, or name one with --table')
    for name in ('study', 'grid', 'halving', 'widenings', 'select', 'method', 'private', 'private_baselines'):
        if flags.FLAGS[name].present:
            raise VirtualTfError(f'{name} is for scripts.sweep: a table has its own; leave it out')
    settings = COMMON | registry.own_settings()
    given = [name for name in run.given_settings(values) if not settings[name].free or name == 'rounds']
    if given and not flags.FLAGS['results_dir'].present:
        raise VirtualTfError(f'{", ".join(given)}: a table of runs with other settings needs a folder of its own; add '
                             '--results_dir, and --output_dir for the runs')


def jobs_of(table, values):
    """What a table is of: groups of Table 3, {(case, column): {seed: Job}} of the others, {} of the data."""
    given, seeds = run.given_settings(values), sweep.seeds_of(values)
    if table == '1':
        return {}
    if table == '3':
        return grids.of_studies(['table3'], given, seeds)
    return STUDIES[table].jobs_of(given, seeds) if table in STUDIES else paper_tables.jobs_of(int(table), given, seeds)


def missing_jobs(table, jobs, folder, root):
    """Those of a table's jobs that neither a run's folder nor the table's file has."""
    if table == '3':
        return [job for group in jobs for job in group.jobs() if not paper_tables.finished(job, root)]
    path = folder / f'{name_of(table)}.json'
    kept = strict_json.read(path) if jobs and path.exists() else {}
    _, missing = paper_tables.collect(jobs, root, kept, lambda job, root: {'finished': True})
    return [jobs[key][seed] for key, seeds in missing.items() for seed in seeds]


def name_of(table):
    """What its files are called."""
    return table if table in STUDIES else f'table{table}'


def write_table(table, values, folder):
    """Makes the runs that are missing, if that is wanted, and writes the table; returns its Markdown."""
    root, jobs = pathlib.Path(values.output_dir).expanduser(), jobs_of(table, values)
    source = Source(root, values.data_dir, run.given_settings(values))
    if table == '1':
        found = data_table.load(values.data_dir, download=bool(values.download))
        return text_tables.write(folder / 'table1', *data_table.table_of_data(*found))
    if values.run and jobs:
        def keep():
            """What has ended, as a machine may be gone before the last run is; too little for a table is no error."""
            with contextlib.suppress(VirtualTfError):
                _write(table, folder, jobs, source)
        try:
            # What foreign data say of a run takes longer than a look should.
            sweep.play(missing_jobs(table, jobs, folder, root), values, root,
                       on_ended=keep if table != uncertainty_table.STUDY else lambda: None)
        except RunError:
            keep()
            raise
    return _write(table, folder, jobs, source)


def _write(table, folder, jobs, source):
    if table == '3':
        return pruning_table.write(folder, jobs, source)
    if table in STUDIES:
        return STUDIES[table].write(folder, jobs, source)
    return paper_tables.write(folder, int(table), jobs, source)


def in_order_of_cost(values, folder):
    """All tables, those first whose missing runs take the least; and says how long each will take."""
    root, seconds = pathlib.Path(values.output_dir).expanduser(), {}
    tables = [table for table in TABLES if table == '1' or jobs_of(table, values)]
    for table in tables:
        missing = missing_jobs(table, jobs_of(table, values), folder, root)
        seconds[table] = sum(costs.estimates(missing, root, values.data_dir).values()) / values.processes
        print(f'{name_of(table)}: {len(missing)} runs are missing, which take about {costs.duration(seconds[table])}',
              flush=True)
    return sorted(tables, key=seconds.get)


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
    errors = []
    for table in in_order_of_cost(values, folder) if values.all else filter(None, [values.table]):
        try:
            text = write_table(table, values, folder)
        except RunError as error:     # of one table, which the others do not wait for
            errors.append(f'{name_of(table)}: {error}')
            continue
        print(f'{text}\nwritten: {folder / name_of(table)}.md and .tex', flush=True)
    if values.docs or values.all:
        write_docs(folder)
        print(f'written: {DOCS / "results.md"} and the digest in {README}')
    if errors:
        raise RunError('; '.join(errors))


if __name__ == '__main__':
    entry.run(main, define_flags)
