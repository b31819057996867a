"""What a sweep shows while its runs are played."""
import shutil
import sys
import time

from virtual_tf.runs.summary import MT, S
from virtual_tf.studies import costs

SILENCE = 300.0     # seconds without news, after which what runs is told where there is no terminal


class LiveTable:
    """What runs and how far it is: redrawn in place on a terminal, elsewhere a line for every run that ends."""

    def __init__(self, estimates, root):
        self._root, self._clock, self._count = root, costs.Clock(estimates, root), len(estimates)
        self._drawn, self._told, self._silent_since = 0, 0, time.monotonic()

    def show(self, active, ended):
        if sys.stdout.isatty():
            self._draw([self._headline(active, ended), *(self._line(job) for job in self._moving(active))])
            return
        news = ended[self._told:]
        if not news and time.monotonic() - self._silent_since > SILENCE:
            news = self._moving(active)
        for job in news:
            print(f'{self._headline(active, ended)}  {self._line(job)}', flush=True)
            self._silent_since = time.monotonic()
        self._told = len(ended)

    def _moving(self, active):
        """Those that have begun, as many as fit: a cluster is given all at once."""
        begun = [job for job in active if (self._root / job.name).exists()]
        return begun[:max(1, shutil.get_terminal_size().lines - 2)]

    def _headline(self, active, ended):
        left = costs.duration(self._clock.left(active, ended))
        return f'[{len(ended)}/{self._count} runs, {left} left]'

    def _line(self, job):
        found = job.folder(self._root).progress()
        shown = ''.join(f'  {name} {100 * found.metrics[key]:.1f}' for name, key in (('S', S), ('MT', MT))
                        if found.metrics.get(key) is not None)
        return f'{job.name}: round {found.round} of {job.settings.rounds}{shown}'

    def _draw(self, lines):
        width = shutil.get_terminal_size().columns
        back = f'\x1b[{self._drawn}A' if self._drawn else ''
        print(back + '\x1b[J' + '\n'.join(line[:width - 1] for line in lines), flush=True)
        self._drawn = len(lines)
