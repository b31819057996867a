"""The progress of a run: a bar in a terminal, elsewhere a plain line now and then."""
import sys
import time

from tqdm import tqdm

from virtual_tf.runs.hooks.base import Hook
from virtual_tf.runs.summary import MT, S

_SHOWN = {'S': S, 'MT': MT, 'loss': 'train/loss'}
_LINES = 20         # of a run, unless it is slow:
_SILENCE = 60.0     # seconds without a line at most, if a round ends in them


class ProgressBar(Hook):
    """Rounds done, time left, and the metrics that matter, in percent."""

    def __init__(self, label, rounds, done=0):
        # A bar is redrawn with carriage returns, which a log file keeps as one endless line.
        self._show = _Bar(label, rounds, done) if sys.stderr.isatty() else _Lines(label, rounds, done)

    def on_round(self, metrics, simulation, state):
        shown = {name: f'{100 * metrics[key]:.1f}' if key.endswith('accuracy') else f'{metrics[key]:.3f}'
                 for name, key in _SHOWN.items()}
        self._show.round(metrics['round'], shown)

    def close(self):
        self._show.close()


class _Bar:
    def __init__(self, label, rounds, done):
        self._bar = tqdm(total=rounds, initial=done, desc=label, unit='round', dynamic_ncols=True)

    def round(self, number, shown):
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update()

    def close(self):
        self._bar.close()


class _Lines:
    def __init__(self, label, rounds, done):
        self._label, self._rounds, self._done, self._every = label, rounds, done, -(-rounds // _LINES)
        self._last = time.monotonic()
        self._from = done, self._last     # the rounds after this one are timed

    def round(self, number, shown):
        now = time.monotonic()
        first, started = self._from
        left = (self._rounds - number) * (now - started) / (number - first)
        if number == self._done + 1:
            self._from = number, now     # this one has compiled, and is no measure for the others
        if number == self._rounds or number % self._every == 0 or now - self._last >= _SILENCE:
            self._last = now
            values = ', '.join(f'{name}={value}' for name, value in shown.items())
            sys.stderr.write(f'{self._label}: round {number}/{self._rounds}, {values}, '
                             f'{tqdm.format_interval(left)} left\n')
            sys.stderr.flush()

    def close(self):
        pass
