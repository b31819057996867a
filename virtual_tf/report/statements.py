"""The paper's statements about its curves and tables, each with our figures.

Curves are taken in the digits in which they are kept, so the text does not depend on whether a run's folder is there.
"""
import itertools

import numpy as np

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.report import text_tables
from virtual_tf.runs.summary import MT, S
from virtual_tf.studies import experiments, kept


def unrest(values):
    """Mean change from one round to the next in the second half of a run, whatever its sign."""
    return float(np.mean(np.abs(np.diff(values[len(values) // 2:]))))


def first_reaching(values, share=0.9):
    """The first round at which a curve has this share of its final value, the mean of the last five rounds."""
    return 1 + int(np.argmax(values >= share * values[-5:].mean()))


def last(runs, key):
    """Mean of the last five rounds, over seeds; percent for accuracies."""
    factor = 100 if key.endswith('accuracy') else 1
    return factor * float(np.mean([run.metrics[key][-5:].mean() for run in runs]))


def runs_of(each, source):
    return [kept.as_kept(run) for run in source.runs(each)]


def steadiness(source):
    """MT is steadier than S, and late by about K/C rounds."""
    rows = []
    for case, column in itertools.product(experiments.CASES, (experiments.OURS, experiments.BASELINES[0])):
        if runs := runs_of(experiments.table2(case, column), source):
            change = [100 * np.mean([unrest(run.metrics[key]) for run in runs]) for key in (S, MT)]
            late = np.mean([first_reaching(run.metrics[MT]) - first_reaching(run.metrics[S]) for run in runs])
            period = runs[0].data['clients'] / runs[0].settings['clients_per_round']
            rows.append([f'`{case}`', experiments.COLUMNS[column].label, *(f'{value:.2f}' for value in change),
                         f'{late:.1f}', f'{period:.1f}'])
    return ('case', 'method', 'S changes a round by', 'MT by', 'MT is late by, rounds', 'K/C'), rows


def kl_weights(source):
    """β between 1e-6 and 1e-3 does no harm to S, and 1e-5 is best for MT."""
    rows = []
    for weight in experiments.KL_WEIGHTS:
        if runs := runs_of(experiments.kl_study(weight), source):
            rows.append([f'{weight:g}', *(f'{last(runs, key):{form}}' for key, form in (
                ('server/cross_entropy', '.3g'), ('mt/cross_entropy', '.3g'), (S, '.2f'), (MT, '.2f')))])
    return ('β', 'S cross-entropy', 'MT cross-entropy', 'S', 'MT'), rows


def mean(records, protocol, key):
    """Mean over the seeds of results/table2.json, in percent."""
    return 100 * float(np.mean([record[protocol][key] for record in records.values()]))


def personal(table):
    """MT is above S, except on Shakespeare and MNIST."""
    rows = []
    for case, methods in table.items():
        if records := methods.get(experiments.OURS):
            difference = mean(records, 'last_5', MT) - mean(records, 'last_5', S)
            expected = case in ('shakespeare', 'mnist')
            rows.append([f'`{case}`', f'{difference:+.2f}', 'S above MT' if expected else 'MT above S',
                         'yes' if (difference < 0) == expected else 'no', str(len(records))])
    return ('case', 'MT − S, last 5', 'the paper', 'the same here', 'seeds'), rows


def superiority(table):
    """VIRTUAL is above both baselines, except on PMNIST."""
    rows = []
    for case, methods in table.items():
        others = [name for name in experiments.BASELINES if name in methods]
        for column in (experiments.OURS, 'virtual-residual'):
            if column in methods and others:
                seeds = methods[column].keys() & set.intersection(*(set(methods[name]) for name in others))
                if not seeds:
                    continue
                ours, *theirs = ({seed: methods[name][seed] for seed in seeds} for name in (column, *others))
                gains = [mean(ours, *what) - max(mean(records, *what) for records in theirs)
                         for what in itertools.product(('max', 'last_5'), (S, MT))]
                rows.append([f'`{case}`', experiments.COLUMNS[column].label, *(f'{gain:+.2f}' for gain in gains),
                             ', '.join(experiments.COLUMNS[name].label for name in others), str(len(seeds))])
    return ('case', 'method', 'S max', 'MT max', 'S last 5', 'MT last 5', 'better of', 'seeds'), rows


def report(source, summaries):
    """All statements as Markdown, from runs and from the summaries of Table 2; what has no run says so."""
    table = {}
    for name, seeds in summaries.items():
        case, column = name.split('/')
        table.setdefault(case, {})[column] = seeds
    parts = [(statement.__doc__, statement(found)) for statement, found in (
        (steadiness, source), (kl_weights, source), (personal, table), (superiority, table))]
    if not any(rows for _, (_, rows) in parts):
        raise VirtualTfError(f'{source.root} has no finished run of table 2 or of the KL study; scripts.sweep makes '
                             'them')
    nothing = f'{source.root} has no run for this; scripts.sweep makes them.\n'
    return '\n'.join(f'**{statement}**\n\n' + (text_tables.markdown(header, rows) if rows else nothing)
                     for statement, (header, rows) in parts)
