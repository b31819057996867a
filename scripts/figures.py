"""The paper's figures from run folders, as PNG and PDF with a caption beside; it starts no run.

    python -m scripts.figures --root=runs --output_dir=results/figures
    python -m scripts.figures --figure=kl,curves

kl           cross-entropy of S and MT for every KL weight β (scripts.sweep --study=kl)
curves       cross-entropy of S, MT and training for all data sets and methods (--study=table2/…)
accuracy     the same of accuracies
epochs100    both with 100 epochs a round (--study=table4/…)
snr          CDF of the SNR of the clients' weights (study table3)
client_size  MT accuracy against client size on Shakespeare (--study=table2/shakespeare)

Only finished runs are drawn. What is missing is named with the command that makes it. The curves of all runs are kept
in output_dir/histories.jsonl, which stands for folders that are gone; snr and client_size need the folders.
"""
import dataclasses
import pathlib
from typing import NamedTuple

from absl import flags

from scripts import entry, table3
from virtual_tf import data
from virtual_tf.core import safe_files
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import Settings
from virtual_tf.data.download import DATA_DIR
from virtual_tf.data.federated import DataError
from virtual_tf.report import figures
from virtual_tf.runs import snr
from virtual_tf.studies import experiments, kept

ROOT = 'runs'


class Place(NamedTuple):
    """Where runs and data lie."""
    root: pathlib.Path
    data_dir: str = DATA_DIR
    kept: dict = {}     # noqa: RUF012  {folder: Run} of runs whose folders may be gone

    def runs(self, each):
        return kept.runs_of(each, self.root, self.kept)

    def command(self, study):
        """What makes the runs of a study."""
        return (f'python -m scripts.sweep --study={study}' + _unless(ROOT, 'output_dir', str(self.root))
                + _unless(DATA_DIR, 'data_dir', self.data_dir))


class Picture(NamedTuple):
    name: str
    figure: object
    caption: str


def define_flags():
    flags.DEFINE_list('figure', list(DRAWERS), f'figures to draw, of {", ".join(DRAWERS)}')
    flags.DEFINE_string('root', ROOT, 'output_dir of scripts.sweep, with table3 below it')
    flags.DEFINE_string('output_dir', 'results/figures', 'folder of the pictures')
    flags.DEFINE_string('data_dir', DATA_DIR, 'root with one folder of raw files a data set; for client_size')


def _unless(default, flag, value):
    return '' if value == default else f' --{flag}={value}'


def missing(place, study):
    """[a line on the runs of a study that are not finished, with the command], [] if there are none."""
    found, seeds = experiments.STUDIES[study]
    lacking = {each.name: sorted(set(seeds) - {run.seed for run in place.runs(each)}) for each in found}
    named = ', '.join(f'{name} ({_seeds(left)})' for name, left in lacking.items() if left)
    if all(len(left) == len(seeds) for left in lacking.values()):
        named = f'all of {study} ({_seeds(seeds)})'
    return [f'{named}: {place.command(study)}'] if named else []


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


def kl(place):
    found = {weight: experiments.kl_study(weight) for weight in experiments.KL_WEIGHTS}
    runs = {weight: place.runs(each) for weight, each in found.items()}
    runs = {weight: of_seeds for weight, of_seeds in runs.items() if of_seeds}
    if not runs:
        return [], missing(place, 'kl')
    about = describe({f'β = {weight:g}': of_seeds for weight, of_seeds in runs.items()})
    notes = [line for weight, of_seeds in runs.items() for line in outdated(found[weight], of_seeds)]
    caption = (f'Cross-entropy of the server (S) and the clients (MT) for KL weights β; thin: each round, thick: mean '
               f'of the last {figures.WINDOW} rounds. {about}.')
    shown = [key for key, *_ in figures.CROSS_ENTROPY[:2]]
    if cut := [f'{weight:g}' for weight, of_seeds in runs.items()
               if any((run.metrics[key] > figures.DIVERGED).any() for run in of_seeds for key in shown)]:
        caption += f' Not drawn: values above {figures.DIVERGED:g}, of β = {", ".join(cut)}.'
    figure = figures.kl_study(runs, f'KL weight: {case_title(runs, ", ")}')
    return [Picture('kl', figure, '\n'.join([caption, *notes]))], missing(place, 'kl')


def case_title(methods, between='\n'):
    """What a column shows: data set, network, rounds, number of seeds; describe has which method has which."""
    settings, counts = _all(methods)[0].settings, sorted({len(runs) for runs in methods.values()})
    return (f'{settings["dataset"]}, {settings["model"]}{between}{_rounds(_all(methods))}, {_span(counts)} '
            f'seed{"s" if counts[-1] > 1 else ""}')


def cases_of(place, table, make):
    """({title: {method: [Run, …]}}, notes, lines on what is missing) of all cases of a table."""
    cases, notes, lines = {}, [], []
    for case in experiments.CASES:
        methods = {}
        for column, label in experiments.LABELS.items():
            each = make(case, column)
            if runs := place.runs(each):
                methods[label] = runs
                notes += outdated(each, runs)
        if methods:
            cases[case_title(methods)] = methods
            about = [text for text in (experiments.CASES[case].note, _all(methods)[0].data['caveat']) if text]
            notes.append(describe(methods) + (f' ({"; ".join(about)}).' if about else '.'))
        for study in (f'{table}/{case}', f'{table}/{case}-private', f'{table}/{case}-authors'):
            lines += missing(place, study) if study in experiments.STUDIES else []
    return cases, notes, lines


def _learning(place, name, metrics, table='table2', make=experiments.table2, more=''):
    """A picture of learning curves."""
    cases, notes, lines = cases_of(place, table, make)
    if not cases:
        return [], lines
    what = 'Cross-entropy' if metrics == figures.CROSS_ENTROPY else 'Accuracy'
    caption = (f'{what}{more} of the server (S), the clients (MT) and training, by round: mean over seeds, band from '
               'the least to the greatest.')
    figure = figures.curves(cases, metrics, f'{what}{more}')
    return [Picture(name, figure, '\n'.join([caption, *notes]))], lines


def curves(place):
    return _learning(place, 'curves', figures.CROSS_ENTROPY)


def accuracy(place):
    return _learning(place, 'accuracy', figures.ACCURACY)


def epochs100(place):
    both = [_learning(place, name, metrics, 'table4', experiments.table4, ' with E = 100') for name, metrics in (
        ('epochs100', figures.CROSS_ENTROPY), ('epochs100_accuracy', figures.ACCURACY))]
    return [picture for pictures, _ in both for picture in pictures], both[0][1]


def snr_cdf(place):
    counts, methods, notes, lines = {}, {}, [], []
    for row in (table3.Row('virtual'), table3.Row('fedavg_init')):
        each, label = experiments.table3(*row), table3.LABELS[row.kind]
        runs, (_, seeds) = kept.finished(place.root / each.name), experiments.study(each.name)
        if lacking := sorted(set(seeds) - {run.seed for run in runs}):
            lines.append(f'{label} without pruning ({_seeds(lacking)}): {place.command(each.name)}')
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


def client_size(place):
    clients, methods, notes, lines = {}, {}, [], missing(place._replace(kept={}), 'table2/shakespeare')
    for column in ('virtual', 'fedavg'):
        each, label = experiments.table2('shakespeare', column), experiments.LABELS[column]
        runs = kept.finished(place.root / each.name)[:1]     # a point for each client, so one seed
        try:
            if runs:
                clients[label] = figures.sizes_of(runs[0], _load(place, runs[0]))
                methods[label] = runs
                notes += outdated(each, runs)
        except DataError as error:
            lines.append(str(error))
        except VirtualTfError as error:
            lines.append(f'{error}: {place.command(each.name)}')
    if not clients:
        return [], lines
    never = ', '.join(f'{label} {(~found.trained).sum()}' for label, found in clients.items())
    figure = figures.client_size(clients, f'MT by client size: {case_title(methods, ", ")}')
    caption = (f'MT accuracy of each client against its number of training targets (characters); thick lines are means '
               f'of {figures.BINS} groups of equally many clients, thin lines the accuracy of S over all clients. '
               f'{describe(methods)}. Clients never selected, which are not in the means: {never}.')
    return [Picture('client_size', figure, '\n'.join([caption, *notes]))], lines


def drawn_by_round():
    """The experiments whose curves are in a figure."""
    return [each for study, (found, _) in experiments.STUDIES.items() if study != 'table3' for each in found]


def _load(place, run):
    """The data of a run; nothing is downloaded for a picture."""
    names = {field.name for field in dataclasses.fields(Settings)}
    settings = Settings(**{name: value for name, value in run.settings.items() if name in names} | {'download': False})
    return data.load(place.data_dir, settings)


DRAWERS = {'kl': kl, 'curves': curves, 'accuracy': accuracy, 'epochs100': epochs100, 'snr': snr_cdf,
           'client_size': client_size}


def main(_):
    values = flags.FLAGS
    unknown = [name for name in values.figure if name not in DRAWERS]
    if unknown or not values.figure:
        raise VirtualTfError(f'figure must be of {", ".join(DRAWERS)}, got {",".join(values.figure) or "none"}')
    folder, drawn, lacking = pathlib.Path(values.output_dir).expanduser(), 0, {}
    place = Place(pathlib.Path(values.root).expanduser(), values.data_dir, kept.load(folder / kept.FILE))
    for name in dict.fromkeys(values.figure):
        pictures, lines = DRAWERS[name](place)
        for line in lines:
            lacking.setdefault(line, []).append(name)
        for picture in pictures:
            safe_files.check_writable(folder)
            figures.save(picture.figure, folder, picture.name, picture.caption)
            print(f'{folder / picture.name}.png, .pdf, .txt\n{picture.caption}\n', flush=True)
            drawn += 1
    for line, names in lacking.items():
        print(f'missing for {", ".join(names)}: {line}')
    if not drawn:
        raise VirtualTfError(f'nothing can be drawn: root = {place.root} has no finished run for '
                             f'{", ".join(values.figure)}; the commands above make them')
    kept.save(folder / kept.FILE, {each.folder(run.seed): run for each in drawn_by_round()
                                             for run in place.runs(each) if kept.as_asked(each, run)})


if __name__ == '__main__':
    define_flags()
    entry.run(main)
