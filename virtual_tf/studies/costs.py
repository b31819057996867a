"""How long runs take: estimated before, and what is left of it while they are played."""
import math
import time

from virtual_tf import data
from virtual_tf.core.settings import COMMON
from virtual_tf.methods import registry
from virtual_tf.runs import driver

# Microseconds of one client's step on one core, measured here (scripts.bench has them for two): for estimates alone.
STEP_MICROSECONDS = {
    ('mlp', 'plain'): 240, ('mlp', 'gaussian'): 530, ('mlp', 'private'): 1_400, ('mlp', 'sample'): 2_000,
    ('conv', 'plain'): 13_000, ('conv', 'gaussian'): 16_000, ('lstm', 'plain'): 23_000, ('lstm', 'gaussian'): 25_000}
UNKNOWN_FACTOR = 2.5     # of what was not measured over the same network's, or an MLP's, Gaussian step
START = 12.0             # seconds to import, load and compile
_DATA = [name for name, setting in COMMON.items() if setting.group == 'data'] + ['seed']


def estimate(settings, dataset):
    """Seconds that a run will take, roughly: so many steps of so many microseconds."""
    kind = ('plain' if not registry.find(settings.method).gaussian else
            'sample' if settings.get('estimator', 'local') == 'sample' else
            'gaussian' if settings.get('private', 'none') == 'none' else 'private')
    step = STEP_MICROSECONDS.get((settings.model, kind)) or UNKNOWN_FACTOR * STEP_MICROSECONDS.get(
        (settings.model, 'gaussian'), STEP_MICROSECONDS['mlp', 'gaussian'])
    batches = sum(math.ceil(size / settings.batch_size) for size in dataset.train.sizes()) / len(dataset.clients)
    return START + 1e-6 * step * settings.rounds * settings.clients_per_round * settings.epochs * batches


def estimates(jobs, root, data_dir):
    """{Job: estimated seconds of what is left of it}, each on its own data; what that cannot serve is refused.

    Data is loaded once for what has the same, one set at a time.
    """
    by_data = {}
    for job in jobs:
        by_data.setdefault(tuple(getattr(job.settings, name) for name in _DATA), []).append(job)
    costs = dict.fromkeys(jobs)
    for of_data in by_data.values():
        dataset = data.load(data_dir, of_data[0].settings)
        for job in of_data:
            driver.check_fits(job.settings, dataset)
            left = 1 - job.folder(root).progress().round / job.settings.rounds
            costs[job] = max(left, 0.0) * estimate(job.settings, dataset)
    return costs


class Clock:
    """Time that is left of jobs, from what the done part took; costs: {Job: seconds} as `estimates` has them."""

    def __init__(self, costs, root):
        self._costs, self._root, self._started = costs, root, time.monotonic()
        self._before = {job: job.folder(root).progress().round for job in costs}

    def left(self, active, ended):
        """Seconds; NaN before anything is done."""
        done = sum(self._costs[job] for job in ended) + sum(self._costs[job] * self._share(job) for job in active)
        elapsed, total = time.monotonic() - self._started, sum(self._costs.values())
        return elapsed * (total - done) / done if done > 0 else math.nan

    def _share(self, job):
        """What this clock has seen of a job that is being played."""
        played = job.folder(self._root).progress().round - self._before[job]
        return played / max(1, job.settings.rounds - self._before[job])


def duration(seconds):
    """As one says it."""
    if not math.isfinite(seconds):
        return 'an unknown time'
    if seconds < 90:
        return f'{seconds:.0f} s'
    return f'{seconds / 60:.0f} min' if seconds < 5400 else f'{seconds / 3600:.1f} h'
