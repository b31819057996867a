"""The progress bar."""
from tqdm import tqdm

from virtual_tf.runs.hooks.base import Hook
from virtual_tf.runs.summary import MT, S

_SHOWN = {'S': S, 'MT': MT, 'loss': 'train/loss'}


class ProgressBar(Hook):
    """Rounds done, time left, and the metrics that matter, in percent."""

    def __init__(self, label, rounds, done=0):
        self._bar = tqdm(total=rounds, initial=done, desc=label, unit='round', dynamic_ncols=True)

    def on_round(self, metrics, simulation, state):
        shown = {name: f'{100 * metrics[key]:.1f}' if key.endswith('accuracy') else f'{metrics[key]:.3f}'
                 for name, key in _SHOWN.items()}
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update()

    def close(self):
        self._bar.close()
