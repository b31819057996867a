"""Runs federated methods on a data set and compares them.

    python -m scripts.run --method=virtual,fedavg,fedprox --dataset=watch --rounds=60
"""
import itertools
import pathlib
import sys

from absl import flags

from virtual_tf import data
from virtual_tf.core import plugins, strict_json
from virtual_tf.core.errors import Interrupted, VirtualTfError
from virtual_tf.core.settings import COMMON
from virtual_tf.data.download import DATA_DIR
from virtual_tf.methods import registry
from virtual_tf.report import comparison
from virtual_tf.runs import driver, engines, final_scores, pictures, provenance, score_pictures
from virtual_tf.runs.folder import RunFolder

from . import entry

_DEFINE = {str: flags.DEFINE_string, int: flags.DEFINE_integer, float: flags.DEFINE_float, bool: flags.DEFINE_bool}
LISTS = ('method', 'private', 'seed')
_FIRST = ('method', 'dataset', 'data_dir', 'model', 'rounds', 'client_lr', 'private', 'seed', 'preset', 'output_dir')


def define_flags():
    """A flag for every setting, those of plug-ins too; lists for what one command compares."""
    _load_plugins_of(sys.argv)
    flags.DEFINE_list('method', ['virtual'], f'methods to run, of {", ".join(registry.METHODS)}')
    flags.DEFINE_list('private', None, 'private weights φ_i: none, joint (the paper), residual, after; several run one '
                      'after the other [by method and preset]')
    flags.DEFINE_list('seed', ['0'], 'seeds of everything random; several run one after the other')
    flags.DEFINE_bool('private_baselines', False, 'give the baselines a private path too')
    flags.DEFINE_string('data_dir', DATA_DIR, 'root with one folder of raw files a data set')
    flags.DEFINE_string('output_dir', 'runs', 'root of the runs\' folders: METHOD[-PRIVATE]/seed-SEED')
    flags.DEFINE_list('plugins', [], 'Python files to run first, which register models, methods or metrics of your own '
                      '(docs/extending.md)')
    _define_engine()
    flags.DEFINE_bool('resume', True, 'continue a run with the same settings that output_dir holds, else replace it')
    settings = COMMON | registry.own_settings()
    for name, setting in settings.items():
        if name not in LISTS:
            if name in flags.FLAGS:
                raise VirtualTfError(f'setting {name!r} of {", ".join(registry.owners(name))} has the name of a flag '
                                     'of the command; use another')
            choices = f' ({", ".join(setting.choices)})' if setting.choices else ''
            _DEFINE[setting.type](name, None, f'{setting.help}{choices} {_default(name)}')
    entry.under('what everybody needs', *_FIRST)
    for name, setting in settings.items():
        if name not in _FIRST:
            entry.under(_heading(name, setting), name)
    entry.under('run', 'resume', 'plugins', 'private_baselines')
    entry.under('many machines', 'engine', 'ray_address', 'workers', 'gpus_per_worker')


def _define_engine():
    flags.DEFINE_enum('engine', 'local', engines.ENGINES, 'where the clients of a round train: in this process, or in '
                      'workers on a Ray cluster (a sweep without --workers plays whole runs there)')
    flags.DEFINE_string('ray_address', None, 'Ray cluster to use, such as HOST:6379; without it one is started here')
    flags.DEFINE_integer('workers', None, 'processes on Ray over which the clients of a round are spread, each with '
                         '--threads cores [one a machine, with all its cores]', lower_bound=1)
    flags.DEFINE_float('gpus_per_worker', 0.0, 'GPUs of each worker on Ray; this has been tried on no GPU',
                       lower_bound=0.0)


def _heading(name, setting):
    return setting.group if setting.group != 'method' else f'method {", ".join(registry.owners(name))}'


def _default(name):
    """The default, as far as it is one: '[0.1]', '[fedavg 1.0, virtual 0.2]', '[0.1; har 0.02, lstm 1.0]'."""
    methods = {method: registry.find(method).declared()[name].default for method in registry.owners(name)}
    if len(set(methods.values())) == 1:
        values = str(next(iter(methods.values())))
    else:
        values = ', '.join(f'{method} {value}' for method, value in methods.items())
    special = {case: given[name] for usual in (registry.OF_DATASET, registry.OF_MODEL) for case, given in usual.items()
               if name in given}
    special |= {f'{case} as published': given[name] for case, given in registry.OF_PUBLISHED.items() if name in given}
    special |= {preset: given[name] for method in registry.METHODS.values() for preset, given in method.presets.items()
                if given.get(name) is not None}
    return f'[{values}{"; " if special else ""}{", ".join(f"{case} {value}" for case, value in special.items())}]'


def _load_plugins_of(arguments):
    """Before the flags are parsed: a plug-in's method brings flags of its own."""
    for flag, value in itertools.pairwise([*arguments, '']):
        name, _, given = flag.lstrip('-').partition('=')
        if flag.startswith('-') and name == 'plugins':
            plugins.load_all(given or value)


def load_plugins(values):
    """Runs the files of --plugins, those of them that were not run for their flags."""
    for path in values.plugins:
        plugins.load(path)


def given_settings(values):
    """{name: value} of the settings that were set on the command line, but for what is a list there."""
    names = [name for name in COMMON | registry.own_settings() if name not in LISTS]
    return {name: getattr(values, name) for name in names if getattr(values, name) is not None}


def settings_of_flags(values):
    """The Settings of each run that the flags ask for."""
    given = given_settings(values)
    runs = []
    for seed, method in itertools.product(seeds_of(values), values.method):
        for choice in privates_of(values, method):
            own = {'method': method, 'seed': seed} | ({'private': choice} if choice else {})
            runs.append(registry.make_settings(registry.applicable(method, given) | own))
    if not runs:
        raise VirtualTfError(f'method and seed name nothing to run; methods are {", ".join(sorted(registry.METHODS))}')
    for settings in runs:
        driver.check_names(settings)
    # What is asked for twice runs once: both would write into the same folder.
    return list(dict.fromkeys(runs))


def privates_of(values, method):
    """The choices of --private for a method: it is part of the method, or a baseline is to be given one."""
    found = registry.find(method)
    if not values.private or 'private' not in found.settings or not (found.gaussian or values.private_baselines):
        return [None]
    return values.private


def unused(values):
    """Sentences on flags that were given and that nothing here uses."""
    named = list(given_settings(values)) + (['private'] if values.private else [])
    for name in named:
        owners = [method for method in values.method if method in registry.owners(name)]
        if not owners:
            yield f'--{name} is ignored: it is a setting of {", ".join(registry.owners(name))}'
        elif name == 'private' and not any(privates_of(values, method) != [None] for method in owners):
            yield '--private is ignored: the baselines have a private path only with --private_baselines'
    if values.split_clients is not None and not values.split:
        yield '--split_clients is ignored: it goes with --split'
    dataset = values.dataset or COMMON['dataset'].default
    if values.max_clients is not None and dataset not in data.WITH_MAX_CLIENTS:
        yield f'--max_clients is ignored: it is for {", ".join(data.WITH_MAX_CLIENTS)}'


def check_engine(values):
    """Refuses flags that are for Ray alone."""
    for name in ('ray_address', 'workers', 'gpus_per_worker'):
        if getattr(values, name) and values.engine != 'ray':
            raise VirtualTfError(f'{name} is for --engine=ray; add that, or leave it out')


def open_engine(values, root):
    """engines.opened for these flags."""
    return engines.opened(values.engine, root, values.ray_address, values.workers or 0, values.threads or 0,
                          values.gpus_per_worker)


def seeds_of(values):
    """The whole numbers of --seed."""
    if not all(seed.isdecimal() for seed in values.seed):
        raise VirtualTfError(f'seed must be a whole number from 0, or several with commas, got {",".join(values.seed)}')
    return list(dict.fromkeys(map(int, values.seed)))


def folder_of(root, settings):
    """root/VARIANT/seed-SEED; or root/VARIANT, where a run of one seed was put by version 0.1, if it is there."""
    folder = root / settings.variant()
    return folder if RunFolder(folder).holds_seed(settings.seed) else folder / f'seed-{settings.seed}'


def play(settings, dataset, folder, resume, make=driver.Simulation):
    """driver.run, which SIGTERM and Ctrl-C end after a round; after the last round they end the command."""
    # Around each run alone: Python itself interrupts what comes between, such as a download.
    with entry.stop_on_signals() as stop:
        outcome = driver.run(settings, dataset, folder, resume=resume, stop=stop, make=make)
        if stop():
            raise Interrupted(f'stopped after the last round of {folder}; the same command continues from there')
    return outcome


def with_fitting_cohorts(runs, dataset, values):
    """The runs with all clients in a round, where there are fewer than the default and nobody said how many."""
    count, usual = len(dataset.clients), COMMON['clients_per_round'].default
    if values.clients_per_round is not None or count >= usual:
        return runs
    print(f'clients_per_round = {count}, all clients of {dataset.name}; the default is {usual}')
    return [settings.replace(clients_per_round=count) for settings in runs]


def announce(runs, root, resume, dataset):
    """Says what of the runs is there already, and refuses folders that hold others; the data is the first seed's."""
    digest = provenance.digest(dataset)
    for settings in runs:
        identity = {'plugins': plugins.digests()} | ({'data': digest} if settings.seed == runs[0].seed else {})
        folder = folder_of(root, settings)
        done = RunFolder(folder).rounds_to_continue(settings, resume, identity)
        if done:
            print(f'{folder}: ' + (
                f'all {done} rounds are there' if done == settings.rounds else f'continues after round {done}')
                + '; --noresume starts anew')


def play_all(runs, dataset, values, root, make):
    """Plays the runs, seed by seed; (summaries, {variant: histories}, {variant: scores at the end})."""
    summaries, histories, scores = [], {}, {}
    for seed, of_seed in itertools.groupby(runs, key=lambda settings: settings.seed):
        of_seed = list(of_seed)
        if seed != runs[0].seed:
            dataset = data.load(values.data_dir, of_seed[0])
        for settings in of_seed:
            driver.check_fits(settings, dataset)
        for settings in of_seed:
            summary, history = play(settings, dataset, folder_of(root, settings), values.resume, make)
            summaries.append(summary)
            histories.setdefault(settings.variant(), []).append(history)
            scores.setdefault(settings.variant(), []).append(final_scores.load(folder_of(root, settings)))
    return summaries, histories, scores


def main(_):
    values = flags.FLAGS
    load_plugins(values)
    check_engine(values)
    runs = settings_of_flags(values)
    for sentence in unused(values):
        print(sentence)
    root = pathlib.Path(values.output_dir).expanduser()
    dataset = data.load(values.data_dir, runs[0])
    runs = with_fitting_cohorts(runs, dataset, values)
    announce(runs, root, values.resume, dataset)
    with open_engine(values, root) as make:
        summaries, histories, scores = play_all(runs, dataset, values, root, make)
    results = comparison.report(runs, summaries, dataset)
    strict_json.write(root / 'results.json', results)
    picture = root / 'learning_curves.png'
    pictures.learning_curves({name: pictures.mean_history(of_seeds) for name, of_seeds in histories.items()}, picture,
                             driver.title(runs[0], values.seed))
    score_pictures.draw(scores, root, driver.title(runs[0], values.seed))
    print(f'\n{dataset.name}: {len(dataset.clients)} clients, {runs[0].rounds} rounds, seed {", ".join(values.seed)}'
          + (f' ({dataset.caveat})' if dataset.caveat else ''))
    rows = results['summaries']
    print('\n'.join([comparison.table(rows), *comparison.drops(rows)]))
    for part in (comparison.details(rows), comparison.newcomers(rows), '\n'.join(comparison.constants(rows))):
        print(f'\n{part}' if part else '', end='\n' if part else '')
    print(f'\nlearning curves: {picture.resolve()}\n'
          f'beside them:     {score_pictures.RELIABILITY}, {score_pictures.CLIENTS}\n'
          f'look inside:     {pathlib.Path(sys.prefix) / "bin" / "tensorboard"} --logdir {root.resolve()}')


if __name__ == '__main__':
    entry.run(main, define_flags)
