"""Grids: what is asked for as groups of jobs that are compared, and the best point of each group."""
import math
from typing import NamedTuple

import numpy as np

from virtual_tf.core.errors import RunError, VirtualTfError
from virtual_tf.core.settings import COMMON
from virtual_tf.methods import registry
from virtual_tf.runs import driver, provenance
from virtual_tf.runs.summary import MT, MT_VISITED, S, largest_fall
from virtual_tf.studies import experiment, experiments
from virtual_tf.studies.workers import Job

SELECTIONS = ('val', 'test_max')
TRIALS = ('rounds', 'validation_fraction')     # what may be given for a study although it has its own


class Group(NamedTuple):
    """Runs that are compared with each other: the points of one method's grid, or a single experiment."""
    name: str
    points: dict      # {((setting, value), …): {seed: Job}}

    def jobs(self):
        return [job for seeds in self.points.values() for job in seeds.values()]


def parse_grid(texts, lists=()):
    """{setting: values} of texts such as client_lr=0.1,0.2; `lists` are settings that have another way to be varied."""
    types = {name: setting.type for name, setting in (COMMON | registry.own_settings()).items() if name not in lists}
    axes = {}
    for text in texts:
        name, _, listed = text.partition('=')
        if types.get(name) not in (int, float, str) or not listed:
            raise VirtualTfError(f'grid must name a setting and its values, as client_lr=0.1,0.2; got {text!r}')
        if name in axes:
            raise VirtualTfError(f'grid has {name} twice; give all its values at once, as {name}=0.1,0.2')
        try:
            axes[name] = tuple(dict.fromkeys(types[name](value) for value in listed.split(',')))
        except ValueError:
            raise VirtualTfError(f'grid {text!r} has a value that is no {types[name].__name__}') from None
    return axes


def of_variants(variants, axes, given, seeds):
    """(Groups, notices): a grid for each variant, {'method': …} and what else it is called after, with these settings.

    An axis that a method has no setting for is left out of its grid, with a notice: all its runs would be equal.
    """
    groups, notices = [], []
    for variant in variants:
        declared, name = registry.find(variant['method']).declared(), '-'.join(variant.values())
        own = {axis: values for axis, values in axes.items() if axis in declared}
        notices += [f'{axis} is no setting of {variant["method"]}, whose grid goes without'
                    for axis in axes if axis not in own]
        groups.append(_group(name, experiments.grid(name, variant, own), given, seeds))
    _refuse_unused([*axes, *given], groups)
    return groups, list(dict.fromkeys(notices))


def of_studies(names, given, seeds=None):
    """Groups of the paper's experiments, with these settings and seeds in place of the usual ones."""
    groups = [group for name in names for group in _of_study(name, given, seeds)]
    _refuse_unused(given, groups)
    return groups


def _of_study(name, given, seeds):
    if name in experiments.GRIDS:
        of_study = experiments.GRIDS[name]
        for column in of_study.columns:
            for part, points in of_study.make(column).items():
                yield _group(part, points, given, seeds or of_study.seeds)
        return
    found, usual = experiments.study(name)
    for each in found:
        if taken := [key for key, _ in each.given if key in given and key not in TRIALS]:
            raise VirtualTfError(f'{taken[0]} is what {each.name} has a value of its own for; leave out --{taken[0]}, '
                                 'or make a sweep of your own with --grid')
        yield _group(each.name, {(): each}, given, seeds or usual)


def _group(name, points, given, seeds):
    if taken := [axis for point in points for axis, _ in point if axis in given]:
        raise VirtualTfError(f'{taken[0]} is an axis of {name}; leave out --{taken[0]}')
    jobs = {}
    for point, each in points.items():
        own = dict(each.given)
        each = experiments.experiment(each.name, own, registry.applicable(own['method'], given))
        jobs[point] = {seed: Job(each.folder(seed), each.settings(seed)) for seed in seeds}
    return Group(name, jobs)


def _refuse_unused(names, groups):
    """What only other methods have is left out of a run; here it must have been for some run."""
    for name in names:
        if not any(name in job.settings for group in groups for job in group.jobs()):
            raise VirtualTfError(f'{name} is a setting of {", ".join(registry.owners(name))}, of which nothing is '
                                 'asked for; leave it out')


def check(groups, select):
    """Before anything is played: whether all names exist, and whether the points of a grid can be compared."""
    for group in groups:
        for job in group.jobs():
            driver.check_names(job.settings)
        if select == 'val' and len(group.points) > 1 and not all(
                job.settings.validation_fraction for job in group.jobs()):
            raise VirtualTfError('the points of a grid are compared on held-out training data; add '
                                 '--validation_fraction=0.2, or use --select=test_max')


def score(job, root, select, rounds=None):
    """What a grid's points are compared by: its `parts` in equal shares."""
    return float(np.mean([*parts(job, root, select, rounds).values()]))


def parts(job, root, select, rounds=None):
    """{'S', 'MT': accuracy in percent}, MT alone without an S.

    `val`: on held-out training data, mean of the last 5 rounds, or of the 5 up to `rounds`; MT over the clients that
    have trained, as the others tell nothing of the method. `test_max`: the best rounds on test data, as in the paper.
    """
    keys = {'S': S, 'MT': MT} if registry.find(job.settings.method).learns_server else {'MT': MT}
    if not job.folder(root).has_summary():     # it could not go on, as scripts.sweep has told
        return dict.fromkeys(keys, math.nan)
    if select == 'test_max':
        rows = [job.folder(root).summary()['max']]
    else:
        rows, keys = job.folder(root).history(rounds)[-5:], {name: f'val_{key}' for name, key in keys.items()}
        visited = f'val_{MT_VISITED}'
        if np.isfinite([row.get(visited, math.nan) for row in rows]).all():     # rounds of before it lack it
            keys['MT'] = visited
        if not {*keys.values()} <= rows[-1].keys():
            raise VirtualTfError(f'{root / job.name} has no validation data to choose by; run it with '
                                 '--validation_fraction=0.2, or use --select=test_max')
    # None is what JSON has for a number that is not finite; as a float it is NaN.
    return {name: 100.0 * float(np.mean(np.array([row[key] for row in rows], float))) for name, key in keys.items()}


def standard_error(values):
    """Of the mean of several numbers; None of a single one."""
    return float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else None


def mean_scores(points, root, select):
    """{point: mean over seeds} of {point: {seed: Job}}"""
    return {point: float(np.mean([score(job, root, select) for job in jobs.values()]))
            for point, jobs in points.items()}


def best_point(scores, seen=None):
    """(the best point, axes at whose edge it lies) of {((setting, value), …): score}; what is not finite loses.

    An axis counts only if every other value of it is worse: one that changes nothing has no edge. seen: {axis: values}
    where more of them were tried than the points that are left have.
    """
    usable = {point: value for point, value in scores.items() if np.isfinite(value)}
    if not usable:
        raise RunError('no point of the grid gave a finite score; try smaller learning rates')
    best = max(usable, key=usable.get)
    edges = []
    for i, (name, value) in enumerate(best):
        values = {point[i][1] for point in scores} if seen is None else seen[name]
        numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)
        tied = any(score == usable[best] and point[i][1] != value for point, score in usable.items())
        if numbers and len(values) > 1 and value in (min(values), max(values)) and not tied:
            edges.append(name)
    return best, edges


def report(group, root, select, edges=None):
    """(text, record) of a grid's points, the best one and the axes at whose edge it lies; `edges` if they are known."""
    scores = mean_scores(group.points, root, select)
    best, found = best_point(scores)
    edges = found if edges is None else edges
    lines = [group.name] + [
        f'  {value:7.2f}  {" ".join(f"{name}={each}" for name, each in point)}{"  <- best" if point == best else ""}'
        for point, value in sorted(scores.items(), key=lambda item: -np.nan_to_num(item[1], nan=-np.inf))]
    declared = group.jobs()[0].settings.declared
    lines += [f'  warning: the best {name} lies on the edge of the grid; {_way_out(declared[name], dict(best)[name])}'
              for name in edges]
    return '\n'.join(lines), {
        'best': dict(best), 'edges': edges,
        'points': [{'settings': dict(point), 'score': value, **_spread(group.points[point], root, select)}
                   for point, value in scores.items()]}


def _spread(jobs, root, select):
    """What a point's score is made of: means of S and MT, its standard error over seeds; and what a round cost S."""
    found = [parts(job, root, select) for job in jobs.values()]
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]} | {
        'standard_error': standard_error([np.mean([*each.values()]) for each in found]),
        'largest_fall': worst_fall(jobs, root)}


def worst_fall(jobs, root):
    """The most points of S that a round after the first ten has cost any of {seed: Job}; None if none got there."""
    folders = [job.folder(root) for job in jobs.values()]
    return max((largest_fall(folder.history()) for folder in folders if folder.has_summary()), default=None)


def beyond(group, seen, best, axis):
    """The point beyond a Group's best one, which lies at the edge of an axis: {point: {seed: Job}}, {} at a limit.

    seen: all values of the axis so far. The new one is to the edge as the edge is to its neighbour. An axis along which
    other settings change too is not widened, as nobody here knows how they go on.
    """
    if _others_follow(group, best, axis):
        return {}
    seen, edge = sorted(seen), dict(best)[axis]
    neighbour, further = (seen[1], 0.5) if edge == seen[0] else (seen[-2], 2.0)
    setting, wanted = group.jobs()[0].settings.declared[axis], edge * (edge / neighbour if neighbour else further)
    bounds = [end if bound is None else bound for end, bound in ((-math.inf, setting.low), (math.inf, setting.high))]
    value = setting.type(float(f'{np.clip(wanted, *bounds):.3g}'))
    point = tuple((name, value if name == axis else old) for name, old in best)
    try:
        jobs = {seed: Job(f'{group.name}/{experiment.folder_of(point)}/seed-{seed}',
                          registry.checked(job.settings.replace(**{axis: value})))
                for seed, job in group.points[best].items()}
    except VirtualTfError:     # beyond what the setting or its method takes
        return {}
    return {} if value in seen else {point: jobs}


def _others_follow(group, best, axis):
    """Whether points that differ from the best in this axis alone differ in further settings."""
    reference = next(iter(group.points[best].values())).settings
    along = [next(iter(jobs.values())).settings for point, jobs in group.points.items()
             if {name for name, value in point if value != dict(best)[name]} == {axis}]
    return any(settings != reference.replace(**{axis: getattr(settings, axis)}) for settings in along)


def _way_out(setting, value):
    return f'{value:g} is the end of what it may be' if value in (setting.low, setting.high) else 'widen it'


def misplaced_lines(records):
    """The grids, of {group: record}, whose line of server steps goes through another than their best point."""
    return [name for name, record in records.items() if (line := records.get(f'{name}/server_lr')) and any(
        record['best'][setting] != value for setting, value in line['best'].items()
        if setting != 'server_lr')]


def chosen(records, study):
    """{column: values} that the grids of a study have chosen, of {group: record}; a line has the last word."""
    return {name.split('/')[2]: record.get('chosen', record['best']) for name, record in records.items()
            if name.startswith(f'{study}/')}


def sweep_record(groups, records, root, select, seconds):
    """sweep.json: the records of all grids, the settings that all runs share, and those of each point that they don't.

    records: {group: record} as `report` has them.
    """
    jobs = list(dict.fromkeys(job for group in groups for job in group.jobs()))
    shared = shared_settings([job.settings for job in jobs])
    detailed = {}
    for group in groups:
        if group.name in records:
            points = [point | {'other_settings': _others(next(iter(of_seeds.values())).settings, shared, point)}
                      for point, of_seeds in zip(records[group.name]['points'], group.points.values())]
            detailed[group.name] = records[group.name] | {'points': points}
    return {'select': select, 'seeds': sorted({job.settings.seed for job in jobs}), 'settings': shared,
            'git_commit': provenance.git_commit(),
            'run_seconds': sum(job.folder(root).summary()['seconds'] for job in jobs
                               if job.folder(root).has_summary()), 'seconds': seconds,
            'groups': detailed}


def _others(settings, shared, point):
    return {name: value for name, value in settings.to_dict().items()
            if name not in shared and name not in point['settings'] and name != 'seed'}


def shared_settings(found):
    """{name: value} of what all of these Settings have, and alike."""
    first, *others = [settings.to_dict() for settings in found]
    return {name: value for name, value in first.items()
            if all(name in other and other[name] == value for other in others)}
