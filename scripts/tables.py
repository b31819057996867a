"""The paper's tables with our numbers beside the published ones, from run folders.

    python -m scripts.tables --table=2 --data_dir=DATA          # what is there; names the commands for what is missing
    python -m scripts.tables --table=2 --run --data_dir=DATA    # makes what is missing first

    python -m scripts.tables --table=2 --run --data_dir=DATA --validation_fraction=0.2 --output_dir=runs/val \\
        --results_dir=results/val                               # holds data out, so that it can choose the round: val

Writes tableN.md, tableN.tex and, for tables of runs, tableN.json with the summaries of every seed. A summary that is in
there already stands for a run of the same settings whose folder is gone.
"""
import dataclasses
import logging
import pathlib

import numpy as np
from absl import flags

from scripts import datasets, entry, run, sweep, table3
from virtual_tf.core import safe_files
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import Settings
from virtual_tf.report import text_tables
from virtual_tf.runs import driver
from virtual_tf.simulator import rounds
from virtual_tf.studies import experiments, paper, workers

S, MT = 'server/accuracy', 'mt/accuracy'
PROTOCOLS = {'max': 'best round on test data, the paper\'s protocol', 'last_5': 'mean of the last five rounds',
             'final': 'last round', 'val': 'round that was best on held-out training data'}
# What the paper says.
PUBLISHED = {2: paper.TABLE_2, 4: paper.TABLE_4}
HEADER = ('data', 'rounds', 'method', 'S max', 'paper', 'difference', 'MT max', 'paper', 'difference', 'S last 5',
          'MT last 5', 'seeds')


def define_flags():
    sweep.define_flags()
    flags.adopt_module_key_flags(sweep)
    flags.DEFINE_enum('table', None, ['1', '2', '3', '4'], 'which table', required=True)
    flags.DEFINE_bool('run', False, 'make the runs that are missing')
    flags.DEFINE_string('results_dir', 'results', 'folder that the table is written to')


def studies_of(table):
    return [name for name in experiments.STUDIES if name.startswith(f'table{table}/')]


def check_flags(values):
    """Refuses what a table has of its own, and to mix runs of other settings into the table that stands."""
    for name in ('study', 'grid', 'method', 'private'):
        if flags.FLAGS[name].present:
            raise VirtualTfError(f'{name} is for scripts.sweep: a table has its own; leave it out')
    free = [field.name for field in dataclasses.fields(Settings) if field.metadata['free'] and field.name != 'rounds']
    given = [name for name in given_settings(values) if name not in free]
    if given and not flags.FLAGS['results_dir'].present:
        raise VirtualTfError(f'{", ".join(given)}: a table of runs with other settings needs a folder of its own; add '
                             '--results_dir, and --output_dir for the runs')


def given_settings(values):
    """{setting: value} of what was given here."""
    names = [field.name for field in dataclasses.fields(Settings) if field.name not in run.LISTS]
    return {name: value for name in names if (value := getattr(values, name, None)) is not None}


def groups_of(table, values):
    """{(case, column): {seed: Job}} of the studies behind a table."""
    values.study = studies_of(table)
    found = {tuple(group.name.split('/')[1:]): group.points[()] for group in sweep.groups_of_flags(values)}
    return {key: found[key] for key in _in_order(found)}


def _in_order(keys):
    return [(case, column) for case in experiments.CASES for column in experiments.COLUMNS if (case, column) in keys]


def collect(groups, root, kept):
    """({(case, column): {seed: record}}, {(case, column): missing seeds}) of what is finished, or kept of earlier.

    A folder with a run of other settings counts as missing, with a warning.
    """
    records, missing = {}, {}
    for (case, column), jobs in groups.items():
        for seed, job in jobs.items():
            record = kept.get(f'{case}/{column}', {}).get(str(seed))
            if finished(job, root):
                record = record_of(job, root)
            elif record and not job.settings.same_run(record['settings']):
                record = None
            if record:
                records.setdefault((case, column), {})[seed] = record
            else:
                missing.setdefault((case, column), []).append(seed)
    return records, missing


def finished(job, root):
    try:
        return workers.finished(job, root)
    except VirtualTfError as error:
        logging.warning('%s', error)
        return False


def record_of(job, root):
    """What is kept of a finished run."""
    summary, config = workers.summary(job, root), workers.read_json(root / job.name / 'config.json')
    return {**{protocol: summary[protocol] for protocol in PROTOCOLS if protocol in summary},
            'rounds': summary['rounds'], 'seconds': summary['seconds'],
            'never_selected': never_selected(config['settings'], config['data']['clients']),
            'settings': config['settings'],
            'caveat': config['data']['caveat'], 'git_commit': config['git_commit']}


def never_selected(settings, clients):
    """How many of the clients no round of a run has selected."""
    seen = {int(i) for number in range(1, settings['rounds'] + 1)
            for i in rounds.select(clients, settings['clients_per_round'], settings['seed'], number)}
    return clients - len(seen)


def rows_of(table, records, missing=()):
    """Lines of the table: in percent, mean ± 95 % interval over seeds, and the difference from the paper.

    What has no run at all has a line that says so.
    """
    lines = []
    for case, column in _in_order({*records, *missing}):
        seeds = records.get((case, column), {})
        published = PUBLISHED[table][experiments.CASES[case].paper].get(column.split('-')[0])
        best = {key: [100 * record['max'][key] for record in seeds.values()] for key in (S, MT)}
        rounds = {record['rounds'] for record in seeds.values()}
        line = [f'`{case}`', ', '.join(map(str, sorted(rounds))) or '–', experiments.LABELS[column]]
        for i, key in enumerate((S, MT)):
            line += [text_tables.cell(best[key]) if seeds else 'missing', f'{published[i]:.1f}' if published else '–',
                     f'{np.mean(best[key]) - published[i]:+.2f}' if published and seeds else '–']
        line += [text_tables.cell([100 * record['last_5'][key] for record in seeds.values()]) for key in (S, MT)]
        lines.append([*line, str(len(seeds))])
    return lines


def other_protocols(records):
    """Header and lines of what the paper's table has no place for: `final`, and `val` of runs that held data out."""
    protocols = [name for name in ('final', 'val') if name in shown(records)]
    header = ('data', 'method', *(f'{model} {name}' for name in protocols for model in ('S', 'MT')))
    return header, [[f'`{case}`', experiments.LABELS[column], *(
        text_tables.cell([100 * record[name][key] for record in seeds.values() if name in record])
        for name in protocols for key in (S, MT))] for (case, column), seeds in records.items()]


def shown(records):
    """The protocols that any of the runs has."""
    return [name for name in PROTOCOLS if any(name in one for seeds in records.values() for one in seeds.values())]


def caveats(records):
    """A sentence for each case whose data or settings are not the paper's."""
    notes = {}
    for (case, _), seeds in records.items():
        texts = (experiments.CASES[case].note, next(iter(seeds.values()))['caveat'])
        notes[case] = '; '.join(text for text in texts if text)
    return [f'- `{case}`: {text}' for case, text in notes.items() if text]


def unvisited(records):
    """What MT has of clients that were never selected: they deploy the initial model."""
    lines = {}
    for (case, _), seeds in records.items():
        for seed, record in seeds.items():
            if count := record.get('never_selected'):
                lines.setdefault(case, {})[seed] = count
    return [f'- `{case}`: never selected, so in MT with the initial model: ' + ', '.join(
        f'{count} with seed {seed}' for seed, count in sorted(counts.items())) for case, counts in lines.items()]


def swept(records):
    """What the sweeps chose, for each case that is shown."""
    return [f'- `{case}`, {column}: ' + ', '.join(
                f'{name} = {value:g}' for name, value in experiments.chosen(case, column).items())
            for case in dict.fromkeys(case for case, _ in records) if case in experiments.CHOSEN
            for column in experiments.SECOND_AXIS]


def table_of_runs(table, values, root, kept):
    """([(header, rows), …], notes in Markdown, summaries) of Table 2 or 4; `kept` are summaries of before."""
    groups = groups_of(table, values)
    records, missing = collect(groups, root, kept)
    if values.run and missing:
        sweep.play([groups[key][seed] for key, seeds in missing.items() for seed in seeds], values, root)
        records, missing = collect(groups, root, kept)
    if not records:
        raise VirtualTfError(f'{root} has no run of table {table}; --run makes them all, '
                             f'{command(studies_of(table), values)} a part')
    notes = ['Percent, mean ± 95 % interval over seeds. ' + '; '.join(
        f'`{name.replace("_", " ")}`: {PROTOCOLS[name]}' for name in shown(records)) + '.',
             *caveats(records), *unvisited(records)]
    if table == 2:
        notes += ['', 'Chosen on held-out training data by the sweeps in `results/sweeps`; all else is the default:',
                  *swept(records)]
    for case in dict.fromkeys(case for case, _ in missing):
        lacking = {column: seeds for (of, column), seeds in missing.items() if of == case}
        named = '; '.join(f'{experiments.LABELS[column]} (seeds {", ".join(map(str, seeds))})'
                          for column, seeds in lacking.items())
        seeds = sorted(set().union(*lacking.values()))
        notes.append(f'- missing on `{case}`: {named}: '
                     f'`{command([f"table{table}/{case}/{column}" for column in lacking], values, seeds)}`')
    return [(HEADER, rows_of(table, records, missing)), other_protocols(records)], notes, merged(records, groups, kept)


def merged(records, groups, kept):
    """{'case/column': {seed: record}} of what is shown, and of the seeds that nobody asked for this time."""
    whole = {}
    for (case, column), jobs in groups.items():
        name = f'{case}/{column}'
        settings = next(iter(jobs.values())).settings
        others = {seed: record for seed, record in kept.get(name, {}).items() if int(seed) not in jobs
                  and dataclasses.replace(settings, seed=int(seed)).same_run(record['settings'])}
        if found := others | {str(seed): record for seed, record in records.get((case, column), {}).items()}:
            whole[name] = dict(sorted(found.items()))
    return whole


def command(studies, values, seeds=()):
    """What plays these studies, with the settings that were given here."""
    given = given_settings(values) | ({'seed': ','.join(map(str, seeds))} if seeds else {})
    return (f'python -m scripts.sweep --study={",".join(studies)} --data_dir={values.data_dir} '
            f'--output_dir={values.output_dir}' + ''.join(f' --{name}={value}' for name, value in given.items()))


def table_of_data(values):
    """Table 1: clients and sizes."""
    header = ('data', 'K', 'paper', 'training data', 'paper', 'a client', 'paper', 'std', 'paper', 'test data')
    rows, notes = [], []
    found, absent = datasets.load(values.data_dir, download=bool(values.download))
    for name, dataset in found.items():
        sizes = datasets.sizes(dataset.train)
        ours = (len(sizes), sizes.sum(), sizes.mean(), np.std(sizes))
        theirs = paper.TABLE_1.get(name, (None,) * 4)
        rows.append([f'`{name}`', *(text for mine, published in zip(ours, theirs) for text in (
            f'{mine:,.0f}', '–' if published is None else f'{published:,}')),
            f'{datasets.sizes(dataset.test).sum():,}'])
        remarks = [remark for remark in (dataset.caveat, datasets.NOTES.get(name)) if remark]
        notes += [f'- `{name}`: {"; ".join(remarks)}'] if remarks else []
    notes += [f'- missing: `{name}`: {reason}' for name, reason in absent.items()]
    return [(header, rows)], notes


def table_of_pruning(values, root):
    """What Table 3 is made of: {row: numbers} of the rows all of whose runs are finished, seeds, settings, the rest."""
    values.study = ['table3']
    groups = sweep.groups_of_flags(values)
    jobs = [job for group in groups for job in group.jobs()]
    if values.run:
        sweep.play(jobs, values, root)
    absent = [group.name for group in groups if not all(finished(job, root) for job in group.jobs())]
    rows = [table3.Row(*row) for row in experiments.TABLE_3_ROWS if experiments.table3(*row).name not in absent]
    if not {table3.Row('fedavg'), table3.Row('fedprox')} <= set(rows):
        raise VirtualTfError(f'{root} lacks the baselines of table 3 or one of their seeds; --run makes them')
    seeds = list(groups[0].points[()])
    lacking = f'\n\n- missing: {", ".join(absent)}: `{command(absent, values)}`' if absent else ''
    return table3.results(rows, seeds, root), seeds, jobs[0].settings, lacking


def write(folder, table, parts, notes):
    """The table's parts, [(header, rows), …], in Markdown and LaTeX; returns the Markdown."""
    text = '\n'.join(text_tables.markdown(*part) for part in parts) + ''.join(f'\n{note}' for note in notes) + '\n'
    write_text(folder / f'table{table}.md', text)
    write_text(folder / f'table{table}.tex', '\n'.join(text_tables.latex(*part) for part in parts)
               + ''.join(f'% {note}\n' for note in notes if note))
    return text


def write_text(path, text):
    with safe_files.replacing(path) as file:
        file.write(text.encode())


def main(_):
    values = flags.FLAGS
    check_flags(values)
    table, root = int(values.table), pathlib.Path(values.output_dir).expanduser()
    folder = pathlib.Path(values.results_dir).expanduser()
    safe_files.check_writable(folder, 'results_dir')
    if table == 1:
        text = write(folder, table, *table_of_data(values))
    elif table == 3:
        numbers, seeds, settings, lacking = table_of_pruning(values, root)
        write_text(folder / 'table3.tex', text_tables.latex(*table3.accuracies(numbers)))
        note = f', {experiments.CASES["writers"].note}'
        text = (table3.markdown(numbers, seeds, f'{settings.dataset}, {settings.rounds} rounds{note}') + '\n\n'
                + table3.claims(numbers) + table3.distributions(numbers, seeds, root) + lacking + '\n')
        write_text(folder / 'table3.md', text)
        driver.write_json(folder / 'table3.json', {'seeds': seeds, 'rows': [
            row._asdict() | {'settings': dict(experiments.table3(*row).given), 'paper': row.published()} | values
            for row, values in numbers.items()]})
    else:
        path = folder / f'table{table}.json'
        parts, notes, summaries = table_of_runs(
            table, values, root, workers.read_json(path) if path.exists() else {})
        text = write(folder, table, parts, notes)
        driver.write_json(path, summaries)
    print(f'{text}\nwritten: {folder / f"table{table}.md"} and .tex')


if __name__ == '__main__':
    define_flags()
    entry.run(main)
