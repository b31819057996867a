"""Curves of finished runs: from their folders, or from a small file that stands for folders that are gone."""
import json
from typing import NamedTuple

import numpy as np

from virtual_tf.core import safe_files
from virtual_tf.runs import hooks

FILE = 'histories.jsonl'     # a line a run
KEYS = ('server/accuracy', 'server/cross_entropy', 'mt/accuracy', 'mt/cross_entropy', 'train/accuracy', 'train/loss')
_DIGITS = 5


class Run(NamedTuple):
    """A finished run."""
    settings: dict
    metrics: dict           # {name: values by round [R]}, NaN where not finite
    data: dict              # what config.json says of the data: clients, caveat, …
    folder: object = None   # its path; None if only its curves are left

    @property
    def seed(self):
        return self.settings['seed']

    @property
    def rounds(self):
        return len(self.metrics['round'])


def finished(folder):
    """Runs of an experiment's folder that have ended, by seed."""
    runs = [read_run(path.parent) for path in folder.glob('seed-*/summary.json')]
    return sorted(runs, key=lambda run: run.seed)


def read_run(folder):
    config = json.loads((folder / 'config.json').read_text(encoding='utf-8'))
    rows = [json.loads(line) for line in (folder / 'metrics.jsonl').read_text(encoding='utf-8').splitlines()]
    # None, which is what JSON has for a number that is not finite, becomes NaN.
    return Run(config['settings'], {key: np.array([row.get(key) for row in rows], float) for key in rows[0]},
               config['data'], folder)


def runs_of(each, root, kept):
    """Runs of an Experiment by seed: what its folder below root has, or else what was kept of it.

    A kept run counts only with the settings that the experiment has now; it then comes before a folder of other ones.
    """
    runs = {run.seed: run for run in finished(root / each.name)}
    for name, run in kept.items():
        if name == each.folder(run.seed) and as_asked(each, run) and not (
                run.seed in runs and as_asked(each, runs[run.seed])):
            runs[run.seed] = run
    return [runs[seed] for seed in sorted(runs)]


def as_asked(each, run):
    """Whether the run has the settings that the experiment has now."""
    return each.settings(run.seed).same_run(run.settings)


def load(path):
    """{folder: Run} of what was kept; {} if there is no such file."""
    if not path.exists():
        return {}
    records = [json.loads(line) for line in path.read_text(encoding='utf-8').splitlines()]
    return {record['run']: Run(record['settings'], {'round': np.arange(1.0, record['rounds'] + 1)} | {
        key: np.array(values, float) for key, values in record['metrics'].items()}, record['data'])
        for record in records}


def save(path, runs):
    """Keeps {folder: Run}, a line each, in five digits."""
    lines = [hooks.to_json({
        'run': name, 'settings': run.settings, 'data': run.data, 'rounds': run.rounds,
        'metrics': {key: [float(f'{value:.{_DIGITS}g}') for value in run.metrics[key]]
                   for key in KEYS if key in run.metrics}}) for name, run in sorted(runs.items())]
    with safe_files.replacing(path) as file:
        file.write(''.join(f'{line}\n' for line in lines).encode())
