"""Curves of finished runs: from their folders, or from a small file that stands for folders that are gone."""
import json

import numpy as np

from virtual_tf.core import safe_files, strict_json
from virtual_tf.runs.folder import Run, finished_below
from virtual_tf.runs.summary import MT, S

FILE = 'histories.jsonl'     # a line a run
KEYS = (S, 'server/cross_entropy', MT, 'mt/cross_entropy', 'train/accuracy', 'train/loss')
_DIGITS = 7


def runs_of(each, root, kept):
    """Runs of an Experiment by seed: what its folder below root has, or else what was kept of it.

    kept: {folder: Run} as `load` has them. A kept run counts only with the settings that the experiment has now; it
    then comes before a folder of other ones.
    """
    runs = {run.seed: run for run in finished_below(root / each.name)}
    for name, run in kept.items():
        if name == each.folder(run.seed) and as_asked(each, run) and not (
                run.seed in runs and as_asked(each, runs[run.seed])):
            runs[run.seed] = run
    return [runs[seed] for seed in sorted(runs)]


def as_asked(each, run):
    """Whether the run has the settings that the experiment has now."""
    return each.settings(run.seed).same_run(run.settings)


def as_kept(run):
    """The run with the curves that are kept, in as many digits: what is said of these can be said again without it."""
    return run._replace(metrics={'round': run.metrics['round']} | {
        key: np.array([float(f'{value:.{_DIGITS}g}') for value in run.metrics[key]])
        for key in KEYS if key in run.metrics})


def load(path):
    """{folder: Run} of what was kept; {} if there is no such file."""
    if not path.exists():
        return {}
    records = [json.loads(line) for line in path.read_text(encoding='utf-8').splitlines()]
    return {record['run']: Run(record['settings'], {'round': np.arange(1.0, record['rounds'] + 1)} | {
        key: np.array(values, float) for key, values in record['metrics'].items()}, record['data'])
        for record in records}


def save(path, runs):
    """Keeps {folder: Run}, a line each."""
    lines = [strict_json.to_json({
        'run': name, 'settings': run.settings, 'data': run.data, 'rounds': run.rounds,
        'metrics': {key: values.tolist() for key, values in as_kept(run).metrics.items() if key != 'round'}})
        for name, run in sorted(runs.items())]
    with safe_files.replacing(path) as file:
        file.write(''.join(f'{line}\n' for line in lines).encode())
