"""What the clients' scores were at the end of a run, client by client: scores.npz, and what pictures need of it."""
import numpy as np

FILE = 'scores.npz'


def save(folder, scores):
    """Keeps {model: Scores [K]} as MODEL/METRIC, a row a client; NaN for a client that was not measured."""
    arrays = {f'{model}/{metric}': sums for model, found in scores.items() for metric, sums in found.sums.items()}
    targets = {f'{model}/targets': found.targets for model, found in scores.items()}
    np.savez_compressed(folder / FILE, **arrays, **targets)


def load(folder):
    """{model: {metric, or 'targets': array [K, …]}}; {} of a run that ended before there was such a file."""
    if not (folder / FILE).exists():
        return {}
    found = {}
    with np.load(folder / FILE) as stored:
        for key in stored.files:
            model, metric = key.split('/')
            found.setdefault(model, {})[metric] = stored[key]
    return found


def bins(found):
    """Targets, Σ confidence and hits by bin of confidence [bins, 3], over all clients of one model's scores."""
    return np.nansum(found['calibration'], axis=0)


def accuracies(found):
    """The accuracy of each client that was measured, ascending."""
    targets, hits = found['targets'], found['hits']
    there = (targets > 0) & ~np.isnan(hits)
    return np.sort(hits[there] / targets[there])
