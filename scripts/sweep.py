"""Runs many experiments, as many at a time as there are processes, and picks the best of each grid.

    python -m scripts.sweep --study=table2/mnist --data_dir=DATA               # experiments of the paper, by name
    python -m scripts.sweep --study=sweeps/mnist --data_dir=DATA               # the sweep that chose their values
    python -m scripts.sweep --method=virtual,fedavg --dataset=watch --grid=client_lr=0.05,0.1,0.2 \\
        --validation_fraction=0.2 --seed=0,1                                   # a grid of your own

It may be killed at any time: what is finished is skipped, what is not continues. All flags of scripts.run apply to
every run.
"""
import dataclasses
import itertools
import math
import os
import pathlib
import shutil
import sys
import time
from typing import NamedTuple

from absl import flags

from scripts import entry, run
from virtual_tf import data
from virtual_tf.core.errors import RunError, VirtualTfError
from virtual_tf.core.settings import Settings
from virtual_tf.runs import driver
from virtual_tf.studies import experiments, workers

ENGINES, SELECTIONS = ('local', 'ray'), ('val', 'test_max')
TRIALS = ('rounds', 'validation_fraction')     # what may be given for a study although it has its own


class Group(NamedTuple):
    """Runs that are compared with each other: the points of one method's grid, or a single experiment."""
    name: str
    points: dict      # {((setting, value), …): {seed: Job}}

    def jobs(self):
        return [job for seeds in self.points.values() for job in seeds.values()]


def define_flags():
    run.define_flags()
    flags.adopt_module_key_flags(run)
    define_engine_flags()
    flags.DEFINE_list('study', [], 'experiments of the paper: ' + ', '.join(
        [*experiments.STUDIES, *experiments.GRIDS]))
    flags.DEFINE_multi_string('grid', [], 'axis of a grid, as client_lr=0.05,0.1,0.2; several are crossed')
    flags.DEFINE_enum('select', 'val', SELECTIONS,
                      'what chooses the best point: held-out training data, or the best round on test data (the paper)')


def define_engine_flags():
    flags.DEFINE_enum('engine', 'local', ENGINES, 'where the runs are played: here, or on a Ray cluster')
    flags.DEFINE_integer('processes', len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else 1,
                         'runs at a time, each with its share of the cores', lower_bound=1)
    flags.DEFINE_string('ray_address', None, 'Ray cluster to use, such as HOST:6379; without it one is started here')


def groups_of_flags(values):
    """What the flags ask for, checked."""
    given = {field.name: flags.FLAGS[field.name].value for field in dataclasses.fields(Settings)
             if field.name not in run.LISTS and flags.FLAGS[field.name].present}
    seeds = run.seeds_of(values) if flags.FLAGS['seed'].present else None
    if values.ray_address and values.engine != 'ray':
        raise VirtualTfError('ray_address is for --engine=ray; add that, or leave the address out')
    if values.private_baselines:
        raise VirtualTfError('private_baselines is for scripts.run; here the baselines have no private path')
    if values.study:
        for name in ('grid', 'method', 'private'):
            if flags.FLAGS[name].present:
                raise VirtualTfError(f'study and {name} exclude each other: a study has its own')
        groups = [group for name in values.study for group in _of_study(name, given, seeds)]
    else:
        groups = list(_of_grid(values, given, seeds or [0]))
    for group in groups:
        for job in group.jobs():
            driver.check_names(job.settings)
        _check_choice(group, given, values.select)
    return groups


def _check_choice(group, given, select):
    """Before anything is played: whether the points of a grid are what their names say and can be compared."""
    if len(group.points) == 1:
        return
    if taken := [name for name, _ in next(iter(group.points)) if name in given]:
        raise VirtualTfError(f'{taken[0]} is an axis of {group.name}; leave out --{taken[0]}')
    if select == 'val' and not all(job.settings.validation_fraction for job in group.jobs()):
        raise VirtualTfError('the points of a grid are compared on held-out training data; add '
                             '--validation_fraction=0.2, or use --select=test_max')


def _of_study(name, given, seeds):
    if name in experiments.GRIDS:
        make, case = experiments.GRIDS[name]
        for column in experiments.SECOND_AXIS:
            for part, points in make(case, column).items():
                yield _group(part, points, given, seeds or [0])
        return
    found, usual = experiments.study(name)
    for each in found:
        if taken := [key for key, _ in each.given if key in given and key not in TRIALS]:
            raise VirtualTfError(f'{taken[0]} is what {each.name} has a value of its own for; leave out --{taken[0]}, '
                                 'or make a sweep of your own with --grid')
        yield _group(each.name, {(): each}, given, seeds or usual)


def _of_grid(values, given, seeds):
    axes = parse_grid(values.grid)
    for method in values.method:
        for private in values.private if values.private and method == 'virtual' else [None]:
            chosen = {'method': method} | ({'private': private} if private else {})
            name = '-'.join(chosen.values())
            yield _group(name, experiments.grid(name, given | chosen, axes), {}, seeds)


def _group(name, points, given, seeds):
    points = {point: experiments.experiment(each.name, dict(each.given), given) for point, each in points.items()}
    return Group(name, {point: {seed: workers.Job(each.folder(seed), each.settings(seed)) for seed in seeds}
                        for point, each in points.items()})


def parse_grid(texts):
    """{setting: values} of texts such as client_lr=0.1,0.2"""
    types = {field.name: field.type for field in dataclasses.fields(Settings)}
    axes = {}
    for text in texts:
        name, _, listed = text.partition('=')
        if types.get(name) not in (int, float, str) or name in run.LISTS or not listed:
            raise VirtualTfError(f'grid must name a setting and its values, as client_lr=0.1,0.2; got {text!r}')
        if name in axes:
            raise VirtualTfError(f'grid has {name} twice; give all its values at once, as {name}=0.1,0.2')
        try:
            axes[name] = tuple(dict.fromkeys(types[name](value) for value in listed.split(',')))
        except ValueError:
            raise VirtualTfError(f'grid {text!r} has a value that is no {types[name].__name__}') from None
    return axes


def play(jobs, values, root):
    """Plays what is not finished, with an estimate before and a live table; raises if a run failed."""
    jobs = list(dict.fromkeys(jobs))
    todo = [job for job in jobs if not (values.resume and workers.finished(job, root))]
    place = workers.Place(root, values.data_dir, tuple(str(pathlib.Path(path).resolve()) for path in values.plugins))
    if not values.resume:
        for job in todo:
            driver.forget(root / job.name)
    costs = _costs(todo, root, values.data_dir)
    print(f'{len(jobs)} runs, {len(jobs) - len(todo)} finished; the others take about '
          f'{duration(sum(costs.values()) / max(1, min(values.processes, len(todo))))}', flush=True)
    if not todo:
        return
    table = LiveTable(costs, root)
    if values.engine == 'ray':
        errors = workers.run_ray(todo, place, values.ray_address, table.show, values.processes)
    else:
        errors = workers.run_local(todo, place, values.processes, table.show)
    if errors:
        raise RunError(f'{len(errors)} of {len(todo)} runs failed: ' + '; '.join(
            f'{job.name}: {error}' for job, error in list(errors.items())[:3]))


def _costs(jobs, root, data_dir):
    """{job: estimated seconds of what is left of it}; data is loaded once for what has the same, one set at a time."""
    def of_data(job):
        settings = job.settings
        return settings.dataset, settings.seed, settings.validation_fraction, settings.standardize, settings.max_clients

    costs = dict.fromkeys(jobs)
    for _, group in itertools.groupby(sorted(jobs, key=of_data), of_data):
        dataset = None
        for job in group:
            dataset = dataset or data.load(data_dir, job.settings)
            driver.check_fits(job.settings, dataset)
            left = 1 - workers.progress(job, root).round / job.settings.rounds
            costs[job] = max(left, 0.0) * experiments.estimate(job.settings, dataset)
    return costs


def duration(seconds):
    if not math.isfinite(seconds):
        return 'an unknown time'
    if seconds < 90:
        return f'{seconds:.0f} s'
    return f'{seconds / 60:.0f} min' if seconds < 5400 else f'{seconds / 3600:.1f} h'


class LiveTable:
    """What runs and how far it is: redrawn in place on a terminal, elsewhere a line for every run that ends.

    Without a terminal what runs is also told when nothing has been for five minutes.
    """

    def __init__(self, costs, root):
        self._costs, self._root = costs, root
        self._started, self._drawn, self._told = time.monotonic(), 0, 0
        self._silent_since = self._started
        self._before = {job: workers.progress(job, root).round for job in costs}

    def show(self, active, ended):
        if sys.stdout.isatty():
            self._draw([self._headline(active, ended), *(self._line(job) for job in self._moving(active))])
            return
        news = ended[self._told:]
        if not news and time.monotonic() - self._silent_since > 300:
            news = self._moving(active)
        for job in news:
            print(f'{self._headline(active, ended)}  {self._line(job)}', flush=True)
            self._silent_since = time.monotonic()
        self._told = len(ended)

    def _moving(self, active):
        """Those that have begun, as many as fit: a cluster is given all at once."""
        begun = [job for job in active if (self._root / job.name).exists()]
        return begun[:max(1, shutil.get_terminal_size().lines - 2)]

    def _headline(self, active, ended):
        done = [self._costs[job] for job in ended] + [
            self._costs[job] * (workers.progress(job, self._root).round - self._before[job])
            / max(1, job.settings.rounds - self._before[job]) for job in active]
        left = workers.remaining(self._costs.values(), done, self._started)
        return f'[{len(ended)}/{len(self._costs)} runs, {duration(left)} left]'

    def _line(self, job):
        found = workers.progress(job, self._root)
        shown = ''.join(f'  {name} {100 * found.metrics[key]:.1f}' for name, key in (
            ('S', 'server/accuracy'), ('MT', 'mt/accuracy')) if found.metrics.get(key) is not None)
        return f'{job.name}: round {found.round} of {job.settings.rounds}{shown}'

    def _draw(self, lines):
        width = shutil.get_terminal_size().columns
        back = f'\x1b[{self._drawn}A' if self._drawn else ''
        print(back + '\x1b[J' + '\n'.join(line[:width - 1] for line in lines), flush=True)
        self._drawn = len(lines)


def report(group, root, select):
    """(text, record) of a grid's points, the best one and the axes at whose edge it lies."""
    seeds = list(next(iter(group.points.values())))
    scores = workers.mean_scores(group.points, seeds, root, select)
    best, edges = workers.best_point(scores)
    lines = [group.name] + [f'  {value:7.2f}  {describe(point)}{"  <- best" if point == best else ""}'
                            for point, value in sorted(scores.items(), key=lambda item: -item[1])]
    lines += [f'  warning: the best {name} lies on the edge of the grid; {_way_out(name, dict(best)[name])}'
              for name in edges]
    return '\n'.join(lines), {
        'best': dict(best), 'edges': edges,
        'points': [{'settings': dict(point), 'score': value} for point, value in scores.items()]}


def _way_out(name, value):
    field, = (field for field in dataclasses.fields(Settings) if field.name == name)
    return f'{value:g} is the end of what it may be' if value in (
        field.metadata['low'], field.metadata['high']) else 'widen it'


def misplaced_lines(records):
    """The grids, of {group: record}, whose line of server steps goes through another than their best point."""
    return [name for name, record in records.items() if (line := records.get(f'{name}/server_lr')) and any(
        record['best'][setting] != value for setting, value in line['best'].items()
        if setting != 'server_lr')]


def describe(point):
    return ' '.join(f'{name}={value}' for name, value in point)


def main(_):
    values = flags.FLAGS
    run.load_plugins(values)
    groups = groups_of_flags(values)
    root = pathlib.Path(values.output_dir).expanduser()
    jobs = [job for group in groups for job in group.jobs()]
    started = time.monotonic()
    play(jobs, values, root)
    records = {}
    for group in groups:
        if len(group.points) > 1:
            text, records[group.name] = report(group, root, values.select)
            print(text)
        else:
            print(f'{group.name}: finished in {root / group.name}')
    for name in misplaced_lines(records):
        print(f'warning: the line of {name} is not through the best point of its grid; enter that in '
              'experiments.CHOSEN and play the sweep again')
    if records:
        settings = dataclasses.asdict(jobs[0].settings)
        path = root / (values.study[0] if len(values.study) == 1 else '.') / 'sweep.json'
        driver.write_json(path, {
            'select': values.select, 'seeds': sorted({job.settings.seed for job in jobs}),
            'dataset': settings['dataset'], 'rounds': settings['rounds'],
            'validation_fraction': settings['validation_fraction'], 'git_commit': driver.git_commit(),
            'run_seconds': sum(workers.summary(job, root)['seconds'] for job in dict.fromkeys(jobs)),
            'seconds': time.monotonic() - started, 'groups': records})
        print(f'all points: {path}')


if __name__ == '__main__':
    define_flags()
    entry.run(main)
