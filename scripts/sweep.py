"""Runs many experiments, as many at a time as there are processes, and picks the best of each grid.

    python -m scripts.sweep --study=table2/mnist --data_dir=DATA               # experiments of the paper, by name
    python -m scripts.sweep --study=sweeps/mnist --data_dir=DATA               # the sweep that chose their values
    python -m scripts.sweep --method=virtual,fedavg --dataset=watch --grid=client_lr=0.05,0.1,0.2 \\
        --validation_fraction=0.2 --seed=0,1                                   # a grid of your own
    python -m scripts.sweep … --halving=8:4,20:2                               # 4 points go on after 8 rounds, …

It may be killed at any time: what is finished is skipped, what is not continues. All flags of scripts.run apply to
every run.
"""
import math
import pathlib
import time

from absl import flags

from virtual_tf.core import processors, strict_json
from virtual_tf.core.errors import RunError, VirtualTfError
from virtual_tf.studies import costs, experiments, grids, halving, workers

from . import entry, live_table, run

PATIENCE = 60.0     # seconds between two looks at what has ended


def define_flags():
    run.define_flags()
    flags.adopt_module_key_flags(run)
    flags.DEFINE_integer('processes', len(processors.cores()),
                         'runs at a time, each with its share of the cores', lower_bound=1)
    flags.DEFINE_list('study', [], 'experiments of the paper: ' + ', '.join(
        [*experiments.STUDIES, *experiments.GRIDS]))
    flags.DEFINE_multi_string('grid', [], 'axis of a grid, as client_lr=0.05,0.1,0.2; several are crossed')
    flags.DEFINE_string('halving', None, 'stages of successive halving, as 8:4,20:2: after 8 rounds the 4 best points '
                        'of a grid go on, after 20 the 2 best, and those to the end; none plays all points to the end '
                        '[what the study has, else none]')
    flags.DEFINE_integer('widenings', None, 'with halving: how often what lies beyond a best point at an edge of the '
                         'grid is played too [2 with the stages of a study, else 0]', lower_bound=0)
    flags.DEFINE_enum('select', 'val', grids.SELECTIONS,
                      'what chooses the best point: held-out training data, or the best round on test data (the paper)')


def seeds_of(values):
    """The seeds that were asked for; None for the usual ones."""
    return run.seeds_of(values) if flags.FLAGS['seed'].present else None


def groups_of_flags(values):
    """(Groups, notices) of what the flags ask for, checked."""
    given, notices = run.given_settings(values), []
    run.check_engine(values)
    if values.gpus_per_worker and not values.workers:
        raise VirtualTfError('gpus_per_worker goes with --workers, over which each run is spread; add that')
    if values.study:
        for name in ('grid', 'method', 'private', 'private_baselines'):
            if flags.FLAGS[name].present:
                raise VirtualTfError(f'study and {name} exclude each other: a study has its own')
        groups = grids.of_studies(values.study, given, seeds_of(values))
    else:
        variants = [{'method': method} | ({'private': choice} if choice else {})
                    for method in values.method for choice in run.privates_of(values, method)]
        groups, notices = grids.of_variants(
            variants, grids.parse_grid(values.grid, run.LISTS), given, seeds_of(values) or [0])
        notices += run.unused(values)
    grids.check(groups, values.select)
    if stages := stages_of(values):
        if values.select != 'val':
            raise VirtualTfError('halving decides on held-out training data; leave out --select, or give '
                                 '--halving=none')
        halving.check(stages, groups)
    elif values.widenings:
        raise VirtualTfError('widenings goes with halving, as --halving=8:4,20:2; add that, or leave it out')
    return groups, notices


def stages_of(values):
    """Stages of successive halving that were asked for, or that the studies have; [] for none."""
    if values.halving is not None:
        return [] if values.halving == 'none' else halving.parse(values.halving)
    found = {experiments.GRIDS[study].stages if study in experiments.GRIDS else '' for study in values.study}
    if len(found) > 1:
        raise VirtualTfError('halving: these studies have different stages; play one at a time, or give --halving')
    return halving.parse(text) if (text := ''.join(found)) else []


def widenings_of(values):
    """How often edges are widened: as asked, else what belongs to the stages of a study."""
    usual = halving.WIDENINGS if values.halving is None else 0
    return usual if values.widenings is None else values.widenings


def play(jobs, values, root, of_grids=frozenset(), on_ended=lambda: None):
    """Plays what is not finished, with an estimate before and a live table; raises if a run failed.

    of_grids: names of jobs that are points of a grid. One that learns nothing is told, and loses there.
    on_ended() is called whenever runs have ended, while others may still be played.
    """
    jobs = list(dict.fromkeys(jobs))
    todo = [job for job in jobs if not (values.resume and job.finished(root))]
    place = workers.Place(root, values.data_dir, tuple(str(pathlib.Path(path).resolve()) for path in values.plugins))
    if not values.resume:
        for job in todo:
            job.folder(root).forget()
    estimates = costs.estimates(todo, root, values.data_dir)
    at_a_time = 1 if values.workers else max(1, min(values.processes, len(todo)))
    print(f'{len(jobs)} runs, {len(jobs) - len(todo)} finished; the others take about '
          f'{costs.duration(sum(estimates.values()) / at_a_time)}', flush=True)
    if not todo:
        return
    watch = _Watch(live_table.LiveTable(estimates, root).show, on_ended)
    if values.workers:     # each run over all of them
        with run.open_engine(values, root) as make:
            errors = workers.run_one_by_one(todo, place, make, watch)
    elif values.engine == 'ray':
        errors = workers.run_ray(todo, place, values.ray_address, watch, values.processes)
    else:
        errors = workers.run_local(todo, place, values.processes, watch)
    for job in [job for job in errors if job.name in of_grids and workers.learnt_nothing(job, root)]:
        print(f'warning: {job.name}: {errors.pop(job)}; it counts as the worst point of its grid')
    if errors:
        raise RunError(f'{len(errors)} of {len(todo)} runs failed: ' + '; '.join(
            f'{job.name}: {error}' for job, error in list(errors.items())[:3]))


class _Watch:
    """Shows what is played, and calls on_ended() when more has ended, but not again and again."""

    def __init__(self, show, on_ended):
        self._show, self._on_ended, self._ended, self._called = show, on_ended, 0, -math.inf

    def __call__(self, active, ended):
        self._show(active, ended)
        if len(ended) > self._ended and time.monotonic() - self._called > PATIENCE:
            self._on_ended()
            self._ended, self._called = len(ended), time.monotonic()


def play_groups(groups, values, root):
    """Plays all of the groups, or by halving.

    Returns what is left of them, {name: record of stages} and {name: axes at whose edge the best point lies}.
    """
    def play_jobs(jobs):
        play(jobs, values, root, {job.name for job in jobs})
    if stages := stages_of(values):
        left, records = halving.play(groups, stages, root, play_jobs)
        left, edges = halving.widen(groups, left, root, play_jobs, widenings_of(values))
        return left, records, edges
    play([job for group in groups for job in group.jobs()], values, root,
         {job.name for group in groups if len(group.points) > 1 for job in group.jobs()})
    return groups, {}, {}


def main(_):
    values = flags.FLAGS
    run.load_plugins(values)
    groups, notices = groups_of_flags(values)
    root, started = pathlib.Path(values.output_dir).expanduser(), time.monotonic()
    for notice in notices:
        print(notice)
    groups, stages, edges = play_groups(groups, values, root)
    records, fruitless = {}, []
    for group in groups:
        if len(group.points) > 1 or stages.get(group.name):
            try:
                text, records[group.name] = grids.report(
                    group, root, values.select, edges.get(group.name))
            except RunError as error:
                fruitless.append(f'{group.name}: {error}')
                continue
            print(text)
            if stages.get(group.name):
                chosen = dict(halving.decide(group, root))
                records[group.name] |= {'chosen': chosen, 'stages': stages[group.name]}
                print('  chosen, the smallest rate within one standard error of the best: '
                      + ' '.join(f'{name}={value}' for name, value in chosen.items()))
        else:
            print(f'{group.name}: finished in {root / group.name}')
    for name in grids.misplaced_lines(records):
        print(f'warning: the line of {name} is not through the best point of its grid; enter that in '
              'experiments.CHOSEN and play the sweep again')
    if records:
        path = root / (values.study[0] if len(values.study) == 1 else '.') / 'sweep.json'
        strict_json.write(path, grids.sweep_record(groups, records, root, values.select, time.monotonic() - started))
        print(f'all points: {path}')
    for study in values.study:
        if study.startswith('sweeps/'):
            print(f'{study} has chosen, as studies/ has it:')
            for column, chosen in grids.chosen(records, study).items():
                print(f'    {column!r}: {chosen},')
    if fruitless:
        raise RunError('; '.join(fruitless))


if __name__ == '__main__':
    entry.run(main, define_flags)
