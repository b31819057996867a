"""Which runs each of the paper's figures needs, its caption, and what is missing for it.

A drawer is a function of the Source of runs: ([Picture, …], lines on what is missing, each with the command for it).
"""
import dataclasses
from typing import NamedTuple

from virtual_tf import data
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.data.federated import DataError
from virtual_tf.methods import registry
from virtual_tf.report import figures
from virtual_tf.runs import snr
from virtual_tf.runs.folder import finished_below
from virtual_tf.studies import experiments, kept

_BY_ROUND = ('table2', 'table4', 'kl')     # studies whose curves are drawn


class Picture(NamedTuple):
    name: str
    figure: object
    caption: str


def missing(source, study):
    """[a line on the runs of a study that are not finished, with the command], [] if there are none."""
    found, seeds = experiments.STUDIES[study]
    lacking = {each.name: sorted(set(seeds) - {run.seed for run in source.runs(each)}) for each in found}
    named = ', '.join(f'{name} ({_seeds(left)})' for name, left in lacking.items() if left)
    if all(len(left) == len(seeds) for left in lacking.values()):
        named = f'all of {study} ({_seeds(seeds)})'
    return [f'{named}: {source.command([study])}'] if named else []


def _seeds(seeds):
    return f'seed{"s" if len(seeds) > 1 else ""} ' + ', '.join(map(str, seeds))


def _all(methods):
    """All runs of {label: [Run, …]}"""
    return [run for runs in methods.values() for run in runs]


def _rounds(runs):
    return f'{_span(run.rounds for run in runs)} rounds'


def _span(numbers):
    """60, or 15–60"""
    return '–'.join(map(str, sorted({min(numbers := list(numbers)), max(numbers)})))


def describe(methods):
    """Data set, network, rounds and seeds of one case: {label: [Run, …]}"""
    runs = _all(methods)
    first, listed = runs[0].settings, {label: _seeds([run.seed for run in each]) for label, each in methods.items()}
    seeds = '; '.join(f'{label} {seeds}' for label, seeds in listed.items())
    return (f'{first["dataset"]}, {first["model"]}, {_rounds(runs)}, C = {first["clients_per_round"]}, '
            f'E = {first["epochs"]}: ' + (seeds if len(set(listed.values())) > 1 else next(iter(listed.values()))))


def outdated(each, runs):
    """Sentences on runs whose settings are no longer those of the experiment."""
    lines = []
    for run in runs:
        settings = each.settings(run.seed)
        differences = settings.differences(run.settings)
        if run.settings['rounds'] != settings.rounds:
            differences['rounds'] = run.settings['rounds'], settings.rounds
        named = ', '.join(f'{name} = {then!r} (now {now!r})' for name, (then, now) in differences.items())
        lines += [f'Not as the experiment is now: {each.folder(run.seed)} has {named}.'] if named else []
    return lines


def kl(source):
    found = {weight: experiments.kl_study(weight) for weight in experiments.KL_WEIGHTS}
    runs = {weight: source.runs(each) for weight, each in found.items()}
    runs = {weight: of_seeds for weight, of_seeds in runs.items() if of_seeds}
    if not runs:
        return [], missing(source, 'kl')
    about = describe({f'β = {weight:g}': of_seeds for weight, of_seeds in runs.items()})
    notes = [line for weight, of_seeds in runs.items() for line in outdated(found[weight], of_seeds)]
    caption = (f'Cross-entropy of the server (S) and the clients (MT) for KL weights β; thin: each round, thick: mean '
               f'of the last {figures.WINDOW} rounds. {about}.')
    shown = [key for key, *_ in figures.CROSS_ENTROPY[:2]]
    if cut := [f'{weight:g}' for weight, of_seeds in runs.items()
               if any((run.metrics[key] > figures.DIVERGED).any() for run in of_seeds for key in shown)]:
        caption += f' Not drawn: values above {figures.DIVERGED:g}, of β = {", ".join(cut)}.'
    figure = figures.kl_study(runs, f'KL weight: {case_title(runs, ", ")}')
    return [Picture('kl', figure, '\n'.join([caption, *notes]))], missing(source, 'kl')


def case_title(methods, between='\n'):
    """What a column shows: data set, network, rounds, number of seeds; describe has which method has which."""
    settings, counts = _all(methods)[0].settings, sorted({len(runs) for runs in methods.values()})
    return (f'{settings["dataset"]}, {settings["model"]}{between}{_rounds(_all(methods))}, {_span(counts)} '
            f'seed{"s" if counts[-1] > 1 else ""}')


def cases_of(source, table, make):
    """({title: {method: [Run, …]}}, notes, lines on what is missing) of all cases of a table."""
    cases, notes, lines = {}, [], []
    for case in experiments.CASES:
        methods = {}
        for column, (label, *_) in experiments.COLUMNS.items():
            each = make(case, column)
            if runs := source.runs(each):
                methods[label] = runs
                notes += outdated(each, runs)
        if methods:
            cases[case_title(methods)] = methods
            about = [text for text in (experiments.CASES[case].note, _all(methods)[0].data['caveat']) if text]
            notes.append(describe(methods) + (f' ({"; ".join(about)}).' if about else '.'))
        for study in (f'{table}/{case}', f'{table}/{case}-private', f'{table}/{case}-authors'):
            lines += missing(source, study) if study in experiments.STUDIES else []
    return cases, notes, lines


def _learning(source, name, metrics, table='table2', make=experiments.table2, more=''):
    """A picture of learning curves."""
    cases, notes, lines = cases_of(source, table, make)
    if not cases:
        return [], lines
    what = 'Cross-entropy' if metrics == figures.CROSS_ENTROPY else 'Accuracy'
    caption = (f'{what}{more} of the server (S), the clients (MT) and training, by round: mean over seeds, band from '
               'the least to the greatest.')
    figure = figures.curves(cases, metrics, f'{what}{more}')
    return [Picture(name, figure, '\n'.join([caption, *notes]))], lines


def curves(source):
    return _learning(source, 'curves', figures.CROSS_ENTROPY)


def accuracy(source):
    return _learning(source, 'accuracy', figures.ACCURACY)


def epochs100(source):
    both = [_learning(source, name, metrics, 'table4', experiments.table4, ' with E = 100') for name, metrics in (
        ('epochs100', figures.CROSS_ENTROPY), ('epochs100_accuracy', figures.ACCURACY))]
    return [picture for pictures, _ in both for picture in pictures], both[0][1]


def snr_cdf(source):
    counts, methods, notes, lines = {}, {}, [], []
    for column in (experiments.OURS, 'fedavg_init'):
        each, label = experiments.table3(column), experiments.ALL_COLUMNS[column].label
        runs, (_, seeds) = finished_below(source.root / each.name), experiments.study(each.name)
        if lacking := sorted(set(seeds) - {run.seed for run in runs}):
            lines.append(f'{label} without pruning ({_seeds(lacking)}): {source.command([each.name])}')
        if found := snr.load([run.folder for run in runs]):
            counts[label], methods[label] = found, runs
            notes += outdated(each, runs)
    if not counts:
        return [], lines
    figure = figures.snr({label: snr.shares(found) for label, found in counts.items()}, snr.GRID,
                         f'SNR of the clients\' weights: {case_title(methods, ", ")}')
    caption = (f'CDF of log10 SNR of the weights of all clients\' posteriors, by layer. {describe(methods)}.\n'
               + '\n'.join([snr.read_out(counts), *notes]))
    return [Picture('snr', figure, caption)], lines


def client_size(source):
    clients, methods, notes, lines = {}, {}, [], missing(
        dataclasses.replace(source, kept={}), 'table2/shakespeare')
    for column in (experiments.OURS, experiments.BASELINES[0]):
        each, label = experiments.table2('shakespeare', column), experiments.COLUMNS[column].label
        runs = finished_below(source.root / each.name)[:1]     # a point for each client, so one seed
        try:
            if runs:
                clients[label] = figures.sizes_of(runs[0], _load(source, runs[0]))
                methods[label] = runs
                notes += outdated(each, runs)
        except DataError as error:
            lines.append(str(error))
        except VirtualTfError as error:
            lines.append(f'{error}: {source.command([each.name])}')
    if not clients:
        return [], lines
    never = ', '.join(f'{label} {(~found.trained).sum()}' for label, found in clients.items())
    figure = figures.client_size(clients, f'MT by client size: {case_title(methods, ", ")}')
    caption = (f'MT accuracy of each client against its number of training targets (characters); thick lines are means '
               f'of {figures.BINS} groups of equally many clients, thin lines the accuracy of S over all clients. '
               f'{describe(methods)}. Clients never selected, which are not in the means: {never}.')
    return [Picture('client_size', figure, '\n'.join([caption, *notes]))], lines


def keep(path, source):
    """Keeps the curves of all runs that are in a figure by round, in a file that stands for their folders."""
    drawn = [each for study, (found, _) in experiments.STUDIES.items() if study.split('/')[0] in _BY_ROUND
             for each in found]
    kept.save(path, {each.folder(run.seed): run for each in drawn for run in source.runs(each)
                     if kept.as_asked(each, run)})


def _load(source, run):
    """The data of a run; nothing is downloaded for a picture."""
    return data.load(source.data_dir, registry.read_settings(run.settings).replace(download=False))


DRAWERS = {'kl': kl, 'curves': curves, 'accuracy': accuracy, 'epochs100': epochs100, 'snr': snr_cdf,
           'client_size': client_size}
