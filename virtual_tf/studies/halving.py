"""Successive halving: all points of a grid play a few rounds, the best of them go on from there.

Most of a grid's points are poor, and show it early. A stage '8:4' plays to round 8 and keeps the 4 best; after the last
stage those that are left play to the end. A run continues from its checkpoint, so nothing is played twice, and what was
decided is read from the rounds that were played: the same command after a stop comes to the same decisions.
"""
import itertools
from typing import NamedTuple

import numpy as np

from virtual_tf.core.errors import RunError, VirtualTfError
from virtual_tf.studies import grids
from virtual_tf.studies.grids import Group

RATE = 'client_lr'
WIDENINGS = 2     # the usual number, of axes at whose edge the best point lies


class Stage(NamedTuple):
    rounds: int
    keep: int     # points of a grid that go on


def parse(text):
    """Stages of a text such as 8:4,20:2: ever more rounds for ever fewer points."""
    try:
        stages = [Stage(*map(int, part.split(':'))) for part in text.split(',')]
    except (TypeError, ValueError):
        stages = []
    ascending = all(a.rounds < b.rounds and a.keep > b.keep for a, b in itertools.pairwise(stages))
    if not stages or not ascending or stages[0].rounds < 1 or stages[-1].keep < 1:
        raise VirtualTfError('halving must be rounds and how many points go on, ever more for ever fewer, as 8:4,20:2; '
                             f'got {text!r}')
    return stages


def check(stages, groups):
    """Refuses stages that are no shorter than the runs."""
    for job in (job for group in groups for job in group.jobs()):
        if stages[-1].rounds >= job.settings.rounds:
            raise VirtualTfError(f'halving has a stage of {stages[-1].rounds} rounds, but a whole run has '
                                 f'{job.settings.rounds}; ask for more rounds, shorter stages or --halving=none')


def play(groups, stages, root, play_jobs):
    """Plays the stages and what is left after them; returns the Groups that are left and {name: record of stages}."""
    records = {group.name: [] for group in groups}
    for stage in stages:
        shortened = [_of_rounds(group, stage.rounds) for group in groups]
        play_jobs([job for group in shortened for job in group.jobs() if not reached(job, root)])
        left = []
        for group in groups:
            scores = {point: [grids.score(job, root, 'val', stage.rounds) for job in jobs.values()]
                      for point, jobs in group.points.items()}
            ranked = sorted(group.points, key=lambda point: -_finite(np.mean(scores[point])))
            left.append(group._replace(points={point: group.points[point] for point in group.points
                                               if point in ranked[:stage.keep]}))
            records[group.name].append({'rounds': stage.rounds, 'points': [
                {'settings': dict(point), 'scores': scores[point], 'goes_on': point in left[-1].points,
                 'largest_fall': grids.worst_fall(group.points[point], root)}
                for point in ranked]})
        groups = left
    play_jobs([job for group in groups for job in group.jobs()])
    return groups, records


def widen(whole, left, root, play_jobs, times=WIDENINGS):
    """The Groups that are left, with what lies beyond their best points while these are at an edge of an axis, at most
    so many times; and the edges that are still there: {group: axes}.

    whole: the Groups as they were before any stage, whose values say where an axis ends. New points play to the end.
    """
    seen = {group.name: {axis: {dict(point)[axis] for point in group.points} for axis, _ in next(iter(group.points))}
            for group in whole}
    for _ in range(times):
        wider = []
        for group in left:
            best, axes = _at_edges(group, seen[group.name], root)
            new = {}
            for axis in axes:
                new |= grids.beyond(group, seen[group.name][axis], best, axis)
            for axis in axes:
                seen[group.name][axis] |= {dict(point)[axis] for point in new}
            wider.append(group._replace(points=group.points | new))
        if all(before.points.keys() == after.points.keys() for before, after in zip(left, wider)):
            break
        play_jobs([job for before, after in zip(left, wider) for point in after.points if point not in before.points
                   for job in after.points[point].values()])
        left = wider
    return left, {group.name: _at_edges(group, seen[group.name], root)[1] for group in left}


def _at_edges(group, seen, root):
    """grids.best_point of a Group; of one in which nothing learnt anything no edge."""
    try:
        return grids.best_point(grids.mean_scores(group.points, root, 'val'), seen)
    except RunError:
        return None, []


def reached(job, root):
    """Whether a job's folder has at least its rounds."""
    folder = job.folder(root)
    if not folder.has_summary():
        return False
    played = folder.config()['settings']['rounds']
    return played >= job.settings.rounds and folder.finished(job.settings.replace(rounds=played))


def decide(group, root):
    """The point of a played Group that `choose` takes."""
    return choose({point: [grids.score(job, root, 'val') for job in jobs.values()]
                   for point, jobs in group.points.items()})


def choose(scores):
    """The point with the smallest rate of those within one standard error of the best, of {point: scores by seed}."""
    means = {point: _finite(np.mean(values)) for point, values in scores.items()}
    best = max(means, key=means.get)
    near = [point for point in scores if means[point] >= means[best] - (grids.standard_error(scores[best]) or 0.0)]
    return min(near, key=lambda point: (dict(point).get(RATE, 0.0), -means[point]))


def _of_rounds(group, rounds):
    return Group(group.name, {point: {seed: job._replace(settings=job.settings.replace(rounds=rounds))
                                      for seed, job in jobs.items()} for point, jobs in group.points.items()})


def _finite(value):
    """A score that is not finite is worse than any."""
    return float(value) if np.isfinite(value) else -np.inf
