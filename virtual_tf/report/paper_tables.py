"""Tables 2 and 4 of the paper with our numbers beside the published ones.

A summary that tableN.json has already stands for a run of the same settings whose folder is gone.
"""
import itertools
import logging

import numpy as np

from virtual_tf.core import strict_json
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.report import text_tables
from virtual_tf.runs.summary import MT, S
from virtual_tf.simulator import rounds
from virtual_tf.studies import experiments, grids, paper

PROTOCOLS = {'max': 'best round on test data, the paper\'s protocol', 'last_5': 'mean of the last five rounds',
             'final': 'last round', 'val': 'round that was best on held-out training data'}
PUBLISHED = {2: paper.TABLE_2, 4: paper.TABLE_4}
HEADER = ('data', 'rounds', 'method', 'S max', 'paper', 'difference', 'MT max', 'paper', 'difference', 'S last 5',
          'MT last 5', 'seeds')


def studies_of(table):
    return [name for name in experiments.STUDIES if name.startswith(f'table{table}/')]


def jobs_of(table, given, seeds=None):
    """{(case, column): {seed: Job}} of the studies behind a table, with these settings in place of their own."""
    groups = grids.of_studies(studies_of(table), given, seeds)
    grids.check(groups, 'val')
    found = {tuple(group.name.split('/')[1:]): group.points[()] for group in groups}
    return {key: found[key] for key in _in_order(found)}


def jobs_by_case(studies, given, seeds=None):
    """{(case, column): {seed: Job}} of studies whose runs are STUDY/CASE/COLUMN, with these settings for their own."""
    groups = grids.of_studies(studies, given, seeds)
    return {tuple(group.name.split('/')[1:]): group.points[()] for group in groups}


def lacking_of(study, missing, source):
    """What is missing of such a study, each with the command that makes it."""
    return [f'- missing: {"/".join((study, *key))} (seeds {", ".join(map(str, seeds))}): '
            f'`{source.command(["/".join((study, *key))], seeds)}`' for key, seeds in missing.items()]


def _in_order(keys):
    return [key for key in itertools.product(experiments.CASES, experiments.COLUMNS) if key in keys]


def finished(job, root):
    """Whether a job is finished; a folder with another run is told and left."""
    try:
        return job.finished(root)
    except VirtualTfError as error:
        logging.warning('%s', error)
        return False


def record_of(job, root):
    """What is kept of a finished run."""
    summary, config = job.folder(root).summary(), job.folder(root).config()
    return {**{protocol: summary[protocol] for protocol in PROTOCOLS if protocol in summary},
            'rounds': summary['rounds'], 'seconds': summary['seconds'],
            'never_selected': never_selected(config['settings'], config['data']['clients']),
            'settings': config['settings'],
            'caveat': config['data']['caveat'], 'git_commit': config['git_commit'],
            'processor': config.get('processor', '')}


def collect(jobs, root, kept, record_of=record_of):
    """({(case, column): {seed: record}}, {(case, column): missing seeds}) of what is finished, or kept of earlier.

    A folder with a run of other settings counts as missing, with a warning. record_of(job, root) is what is kept of a
    finished run.
    """
    records, missing = {}, {}
    for (case, column), of_seeds in jobs.items():
        for seed, job in of_seeds.items():
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
        published = PUBLISHED[table][experiments.CASES[case].paper].get(experiments.COLUMNS[column].paper)
        lengths = {record['rounds'] for record in seeds.values()}
        line = [f'`{case}`', ', '.join(map(str, sorted(lengths))) or '–', experiments.COLUMNS[column].label]
        for i, key in enumerate((S, MT)):
            best = percent(seeds, 'max', key)
            line += [text_tables.cell(best, absent='missing'), f'{published[i]:.1f}' if published else '–',
                     f'{np.mean(best) - published[i]:+.2f}' if published and best else '–']
        line += [text_tables.cell(percent(seeds, 'last_5', key)) for key in (S, MT)]
        lines.append([*line, str(len(seeds))])
    return lines


def percent(seeds, protocol, key):
    """A metric of the records {seed: record} that have the protocol."""
    return [100 * record[protocol][key] for record in seeds.values() if protocol in record]


def other_protocols(records):
    """Header and lines of what the paper's table has no place for: `final`, and `val` of runs that held data out."""
    protocols = [name for name in ('final', 'val') if name in shown(records)]
    header = ('data', 'method', *(f'{model} {name}' for name in protocols for model in ('S', 'MT')))
    return header, [[f'`{case}`', experiments.COLUMNS[column].label, *(
        text_tables.cell(percent(seeds, name, key)) for name in protocols for key in (S, MT))]
        for (case, column), seeds in records.items()]


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


def swept(records, source):
    """What the sweeps chose, for each case that is shown, and what else is not the default."""
    rest = f'given were {source.named_settings()}; all else' if source.given else 'all else'
    return ['Chosen on held-out training data by the sweeps in `results/sweeps`; '
            f'{rest} as in `virtual_tf/studies/experiments.py`:'] + [
        f'- `{case}`, {column}: ' + ', '.join(
            f'{name} = {value:g}' for name, value in experiments.chosen(case, column).items())
        for case in dict.fromkeys(case for case, _ in records) if case in experiments.CHOSEN
        for column in experiments.COMPARED]


def lacking(table, missing, source):
    """A line for each case with missing runs, and the command that makes them."""
    lines = []
    for case in dict.fromkeys(case for case, _ in missing):
        columns = {column: seeds for (of, column), seeds in missing.items() if of == case}
        named = '; '.join(f'{experiments.COLUMNS[column].label} (seeds {", ".join(map(str, seeds))})'
                          for column, seeds in columns.items())
        command = source.command([f'table{table}/{case}/{column}' for column in columns],
                                 sorted(set().union(*columns.values())))
        lines.append(f'- missing on `{case}`: {named}: `{command}`')
    return lines


def table_of_runs(table, jobs, source, kept):
    """([(header, rows), …], notes in Markdown, summaries) of Table 2 or 4; `kept` are summaries of before."""
    records, missing = collect(jobs, source.root, kept)
    if not records:
        raise VirtualTfError(f'{source.root} has no run of table {table}; --run makes them all, '
                             f'{source.command(studies_of(table))} a part')
    notes = ['Percent, mean ± 95 % interval over seeds. ' + '; '.join(
        f'`{name.replace("_", " ")}`: {PROTOCOLS[name]}' for name in shown(records)) + '.',
             *caveats(records), *unvisited(records), *(['', *swept(records, source)] if table == 2 else []),
             *lacking(table, missing, source)]
    return [(HEADER, rows_of(table, records, missing)), other_protocols(records)], notes, merged(records, jobs, kept)


def merged(records, jobs, kept):
    """{'case/column': {seed: record}} of what is shown, and of the seeds that nobody asked for this time."""
    whole = {}
    for (case, column), of_seeds in jobs.items():
        name, settings = f'{case}/{column}', next(iter(of_seeds.values())).settings
        others = {seed: record for seed, record in kept.get(name, {}).items() if int(seed) not in of_seeds
                  and settings.replace(seed=int(seed)).same_run(record['settings'])}
        if found := others | {str(seed): record for seed, record in records.get((case, column), {}).items()}:
            whole[name] = dict(sorted(found.items()))
    return whole


def summaries_in(folder, table):
    """{'case/column': {seed: record}} that tableN.json has; {} if there is none."""
    path = folder / f'table{table}.json'
    return strict_json.read(path) if path.exists() else {}


def write(folder, table, jobs, source):
    """tableN.md, .tex and .json; returns the Markdown."""
    parts, notes, summaries = table_of_runs(table, jobs, source, summaries_in(folder, table))
    text = text_tables.write(folder / f'table{table}', parts, notes)
    strict_json.write(folder / f'table{table}.json', summaries)
    return text
