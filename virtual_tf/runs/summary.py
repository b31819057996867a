"""What a run comes to: its best round, its last ones, and the round that held-out data chose."""
import numpy as np

from virtual_tf.simulator import metrics
from virtual_tf.simulator.evaluation import MODELS

S, MT = 'server/accuracy', 'mt/accuracy'
MT_VISITED = 'mt_visited/accuracy'     # over the clients that have trained alone
SETTLED = 10     # rounds after which S should not fall any more


def summarise(history, last=5):
    """`max`: best round of each metric, the paper's protocol; `final`: last round; `last_5`: mean of the last five.

    `val`: test metrics at the round that was best on held-out training data, when there is a validation split.
    """
    measured = metrics.best_of()
    keys = [f'{model}/{name}' for model in MODELS for name in measured if f'{model}/{name}' in history[-1]]

    def best(key):
        # A round without a number is no best round; comparisons with NaN would let the first one win.
        rows = [row for row in history if not np.isnan(row.get(key, np.nan))] or history[-1:]
        return measured[key.split('/')[1]](rows, key=lambda row: row[key])

    summary = {'rounds': len(history),
               'max': {key: best(key)[key] for key in keys},
               'max_round': {key: best(key)['round'] for key in keys},
               'final': {key: history[-1][key] for key in keys},
               f'last_{last}': {key: float(np.mean([row.get(key, np.nan) for row in history[-last:]])) for key in keys},
               'seconds': float(np.nansum([row['seconds'] for row in history])),
               'dropped_clients': int(np.nansum([row.get('dropped_clients', 0) for row in history]))}
    if 'val_server/accuracy' in history[-1]:
        summary['val'] = {key: best('val_' + key)[key] for key in keys}
        summary['val_round'] = {key: best('val_' + key)['round'] for key in keys}
    return summary


def largest_fall(history):
    """The most points of S that a round after the first ten has cost."""
    scores = np.array([row.get(S, np.nan) for row in history[SETTLED - 1:]], float)     # JSON's null becomes NaN
    return float(max([0.0, *-100.0 * np.diff(scores[np.isfinite(scores)])]))
