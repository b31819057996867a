"""Runs federated methods on a data set and compares them.

    python -m scripts.run --method=virtual,fedavg,fedprox --dataset=watch --rounds=60
"""
import dataclasses
import itertools
import pathlib
import sys

import numpy as np
from absl import flags

from scripts import entry
from virtual_tf import data
from virtual_tf.core.errors import Interrupted, VirtualTfError
from virtual_tf.core.settings import BASELINE, OF_DATASET, OF_MODEL, PRESETS, Settings, make_settings
from virtual_tf.data.download import DATA_DIR
from virtual_tf.methods import ALGORITHMS
from virtual_tf.networks import models
from virtual_tf.runs import driver, pictures

_DEFINE = {str: flags.DEFINE_string, int: flags.DEFINE_integer, float: flags.DEFINE_float, bool: flags.DEFINE_bool}
LISTS = ('method', 'private', 'seed')
# Settings whose default is not the same for every run.
_VARYING = set().union(*PRESETS.values(), BASELINE, *OF_MODEL.values(), *OF_DATASET.values())
_TITLES = ('S acc %', 'MT acc %', 'S xent', 'MT xent', 'S acc %', 'MT acc %')
_WIDTHS = (13, 13, 13, 13, 14, 13)


def define_flags():
    """A flag for every setting; lists for what one command compares."""
    flags.DEFINE_list('method', ['virtual'], f'methods to run, of {", ".join(ALGORITHMS)}')
    flags.DEFINE_list('private', None, 'private weights φ_i of virtual: none, joint (the paper), residual; several run '
                      f'one after the other {_default("private")}')
    flags.DEFINE_list('seed', ['0'], 'seeds of everything random; several run one after the other')
    flags.DEFINE_bool('private_baselines', False, 'give the baselines the private path too')
    flags.DEFINE_string('data_dir', DATA_DIR, 'root with one folder of raw files a data set')
    flags.DEFINE_string('output_dir', 'runs', 'root of the folders, one a method and variant, that this run writes')
    flags.DEFINE_list('plugins', [], 'Python files to run first, which register models of your own (docs/models.md)')
    flags.DEFINE_bool('resume', True, 'continue a run with the same settings that output_dir holds, else replace it')
    for field in dataclasses.fields(Settings):
        if field.name not in LISTS:
            choices = f' ({", ".join(field.metadata["choices"])})' if field.metadata['choices'] else ''
            _DEFINE[field.type](field.name, None, f'{field.metadata["help"]}{choices} {_default(field.name)}')


def _default(name):
    return f'[{getattr(Settings, name)}{"; by preset, method, model and data" if name in _VARYING else ""}]'


def load_plugins(values):
    """Runs the files of --plugins, before anything asks for the models that they register."""
    for path in values.plugins:
        models.load_plugin(path)


def settings_of_flags(values):
    """The Settings of each run that the flags ask for."""
    given = {field.name: getattr(values, field.name) for field in dataclasses.fields(Settings)
             if field.name not in LISTS and getattr(values, field.name) is not None}
    runs = []
    for seed, method in itertools.product(seeds_of(values), values.method):
        private = values.private if values.private and (method == 'virtual' or values.private_baselines) else [None]
        for choice in private:
            runs.append(make_settings(
                given | {'method': method, 'seed': seed} | ({'private': choice} if choice else {})))
    if not runs:
        raise VirtualTfError(f'method and seed name nothing to run; methods are {", ".join(sorted(ALGORITHMS))}')
    for settings in runs:
        driver.check_names(settings)
    # What is asked for twice runs once: both would write into the same folder.
    return list(dict.fromkeys(runs))


def seeds_of(values):
    """The whole numbers of --seed."""
    if not all(seed.isdecimal() for seed in values.seed):
        raise VirtualTfError(f'seed must be a whole number from 0, or several with commas, got {",".join(values.seed)}')
    return list(dict.fromkeys(map(int, values.seed)))


def folder_of(root, settings, runs):
    """A folder for each method and variant; below it one for each seed, if there are several."""
    folder = root / settings.variant()
    return folder if len({each.seed for each in runs}) == 1 else folder / f'seed-{settings.seed}'


def report(runs, summaries, dataset):
    """results.json: what was asked for, and the summaries of all seeds by variant."""
    shared = dataclasses.asdict(runs[0])
    rows = {}
    for settings, summary in zip(runs, summaries):
        rows.setdefault(settings.variant(), {})[str(settings.seed)] = summary
    differing = {name for settings in runs for name, value in dataclasses.asdict(settings).items()
                 if value != shared[name]}
    return {'dataset': dataset.name, 'clients': len(dataset.clients), 'caveat': dataset.caveat,
            'settings': {name: value for name, value in shared.items() if name not in differing},
            'settings_of': {settings.variant(): {name: getattr(settings, name) for name in sorted(differing - {'seed'})}
                            for settings in runs}, 'summaries': rows}


def table(rows):
    """S and MT accuracy and cross-entropy of each variant over its seeds, at the end and at best."""
    lines = [f'{"":18}{"last 5 rounds":^50}{"best round (paper)":^26}',
             f'{"method":18}' + ''.join(f'{title:>{width}}' for title, width in zip(_TITLES, _WIDTHS))]
    for name, seeds in rows.items():
        cells = [_cell(seeds, protocol, f'{model}/{metric}') for protocol, metrics in (
            ('last_5', ('accuracy', 'cross_entropy')), ('max', ('accuracy',)))
            for metric in metrics for model in ('server', 'mt')]
        lines.append(f'{name:18}' + ''.join(f'{cell:>{width}}' for cell, width in zip(cells, _WIDTHS)))
    return '\n'.join(lines)


def _cell(seeds, protocol, key):
    """The mean over seeds, with its standard deviation if there are several."""
    values = np.asarray([summary[protocol][key] for summary in seeds.values()])
    factor, digits = (100, 2) if key.endswith('accuracy') else (1, 3)
    spread = f' ±{factor * values.std(ddof=1):.{digits}f}' if len(values) > 1 else ''
    return f'{factor * values.mean():.{digits}f}{spread}'


def play(settings, dataset, folder, resume):
    """running.run, which SIGTERM and Ctrl-C end after a round; after the last round they end the command."""
    # Around each run alone: Python itself interrupts what comes between, such as a download.
    with entry.stop_on_signals() as stop:
        outcome = driver.run(settings, dataset, folder, resume=resume, stop=stop)
        if stop():
            raise Interrupted(f'stopped after the last round of {folder}; the same command continues from there')
    return outcome


def main(_):
    values = flags.FLAGS
    load_plugins(values)
    runs = settings_of_flags(values)
    root = pathlib.Path(values.output_dir).expanduser()
    for settings in runs:
        folder = folder_of(root, settings, runs)
        done = driver.check_folder(settings, folder, values.resume)
        if done:
            print(f'{folder}: ' + (
                f'all {done} rounds are there' if done == settings.rounds else f'continues after round {done}')
                + '; --noresume starts anew')
    summaries, histories = [], {}
    for _, of_seed in itertools.groupby(runs, key=lambda settings: settings.seed):
        of_seed = list(of_seed)
        dataset = data.load(values.data_dir, of_seed[0])
        for settings in of_seed:
            driver.check_fits(settings, dataset)
        for settings in of_seed:
            summary, history = play(settings, dataset, folder_of(root, settings, runs), values.resume)
            summaries.append(summary)
            histories.setdefault(settings.variant(), []).append(history)
    results = report(runs, summaries, dataset)
    driver.write_json(root / 'results.json', results)
    picture = root / 'learning_curves.png'
    pictures.learning_curves({name: pictures.mean_history(of_seeds) for name, of_seeds in histories.items()}, picture,
                          driver.title(runs[0], values.seed))
    print(f'\n{dataset.name}: {len(dataset.clients)} clients, {runs[0].rounds} rounds, seed {", ".join(values.seed)}'
          + (f' ({dataset.caveat})' if dataset.caveat else ''))
    print(table(results['summaries']))
    print(f'\nlearning curves: {picture.resolve()}\n'
          f'look inside:     {pathlib.Path(sys.prefix) / "bin" / "tensorboard"} --logdir {root.resolve()}')


if __name__ == '__main__':
    define_flags()
    entry.run(main)
