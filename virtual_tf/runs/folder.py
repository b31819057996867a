"""The one owner of a run's folder: every reader and writer of what is in it.

    config.json      settings, data, versions, commit
    clients.json     names of the clients and numbers of their targets
    metrics.jsonl    a line a round
    summary.json     the last of all: with it, the run is finished
    checkpoints/     to continue from (simulator/checkpoints.py)
"""
import contextlib
import json
import math
import shutil
from typing import NamedTuple

import numpy as np
from absl import logging

from virtual_tf.core import safe_files, strict_json
from virtual_tf.core.errors import ANEW, VirtualTfError
from virtual_tf.methods import registry
from virtual_tf.runs import event_files
from virtual_tf.simulator.checkpoints import Checkpoints

_OTHER_DATA = 'a run with other data under the name'
_WAY_OUT = f'{ANEW} replaces that run, another output_dir keeps both'


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


class Progress(NamedTuple):
    """How far a run is."""
    round: int
    metrics: dict           # of its last round; {} before the first


class RunFolder:
    """What a folder holds of one run; nothing is written before it is asked for."""

    def __init__(self, path):
        self.path = path
        self._metrics, self._summary, self._config, self._clients = (
            path / name for name in ('metrics.jsonl', 'summary.json', 'config.json', 'clients.json'))
        self.checkpoints = Checkpoints(path / 'checkpoints')

    def config(self):
        return strict_json.read(self._config)

    def clients(self):
        """What clients.json says of the clients; None for a run of a version that did not write it."""
        return strict_json.read(self._clients) if self._clients.exists() else None

    def begun(self):
        """Whether there is a run, finished or not."""
        return self._config.exists()

    def check_begun(self):
        """Refuses a folder without a run, finished or not."""
        self._check_exists()
        if not self.begun():
            raise self._instead('has no run', self._config, 'give the folder of a run')

    def _check_exists(self):
        if not self.path.is_dir():
            raise VirtualTfError(f'there is no folder {self.path}; give that of a run')

    def _instead(self, lacks, file, remedy):
        """The error for a folder without a file, which folders below it may have."""
        below = sorted(str(path.parent.relative_to(self.path)) for path in self.path.glob(f'**/{file.name}'))
        return VirtualTfError(f'{self.path} {lacks}: ' + (
            f'it holds {", ".join(below[:4])}, of which you want one' if below else
            f'{file.name} is missing; {remedy}'))

    def summary(self):
        return strict_json.read(self._summary)

    def has_summary(self):
        return self._summary.exists()

    def holds_seed(self, seed):
        """Whether there is a run with this seed, finished or not."""
        return self._config.exists() and self.config()['settings']['seed'] == seed

    def finished(self, settings):
        """Whether the run of these settings is finished here; another run's folder is refused."""
        if not self.has_summary():
            return False
        stored = self.config()['settings']
        self.check_same(settings, stored)
        if stored['rounds'] > settings.rounds:
            self._refuse({'rounds': (stored['rounds'], settings.rounds)})
        return stored['rounds'] == settings.rounds

    def check_same(self, settings, stored):
        """Refuses settings that are not those of the run here; of one's own data the path may be another."""
        differences = settings.differences(stored)
        paths = [str(path).partition(':') for path in differences.get('dataset', ())]
        if paths and all(path for _, _, path in paths) and paths[0][0] == paths[1][0]:
            del differences['dataset']     # the digest of the data decides
        self._refuse(differences)

    def _refuse(self, differences):
        if differences:
            named = ', '.join(f'{name} = {now!r} (there: {then!r})' for name, (then, now) in differences.items())
            raise VirtualTfError(f'{self.path} holds a run with other settings: {named}; {_WAY_OUT}')

    def check_continues(self, settings, found, identity):
        """Refuses to continue a checkpoint with what would have changed its rounds.

        identity: what is known by now of {'place', 'network', 'data', 'plugins'}, as the checkpoint has them.
        """
        then = {'place': 'simulator', 'plugins': {}} | found.identity
        files = identity.get('plugins', {}), then['plugins']
        edited, gone = ({name for name, digest in some.items() if digest not in others.values()}
                        for some, others in (files, files[::-1]))
        self.check_same(settings, then['settings'])
        for name, sentence in (
                ('place', f'a run of the {then["place"]}, whose clients\' states are not here'),
                ('network', f'a run of another network under the name {settings.model}'),
                ('data', f'{_OTHER_DATA} {settings.dataset}'),
                ('plugins', f'a run with other plug-ins ({", ".join(sorted(edited | gone))}: edited, new or missing)')):
            same = not edited | gone if name == 'plugins' else identity.get(name) == then.get(name)
            if name in identity and not same:
                raise VirtualTfError(f'{self.path} holds {sentence}; {_WAY_OUT}')
        if settings.rounds < found.round:
            raise VirtualTfError(f'rounds = {settings.rounds}, but the run in {self.path} has played {found.round} '
                                 f'already; {_WAY_OUT}')

    def rounds_to_continue(self, settings, resume=True, identity=None):
        """Rounds of the run of these settings that are here; refuses another run's, and what cannot be written.

        Leaves nothing behind, so that other checks may still fail. A finished run counts also without checkpoints.
        """
        missing = [parent for parent in (self.path, *self.path.parents) if not parent.exists()]
        safe_files.check_writable(self.path)
        with safe_files.locked(self.path):
            found = self.checkpoints.newest(with_clients=False) if resume else None
        with contextlib.suppress(OSError):     # another command uses it by now
            for parent in missing:
                parent.rmdir()
        if found is not None:
            self.check_continues(registry.with_compiler(settings), found, identity or {})
            return found.round
        return settings.rounds if resume and self.check_without_checkpoint(settings) else 0

    def check_without_checkpoint(self, settings, digest=''):
        """Of a folder that has no checkpoint: whether it holds this run, finished.

        It may: checkpoints were deleted, or there were none to be. Another run is refused, so is a finished one of
        fewer rounds, which cannot be continued.
        """
        if not self._config.exists():
            if self.has_summary() or self._metrics.exists():
                raise VirtualTfError(f'{self.path} holds results of a run whose config.json is gone, so nobody can say '
                                     f'which; {_WAY_OUT}')
            return False
        stored = self.config()['settings']
        self.check_same(settings, stored)
        if digest and self.config()['data'].get('sha256', digest) != digest:
            raise VirtualTfError(f'{self.path} holds {_OTHER_DATA} {settings.dataset}; {_WAY_OUT}')
        if self.has_summary() and stored['rounds'] != settings.rounds:
            raise VirtualTfError(f'rounds = {settings.rounds}, but {self.path} holds a finished run of '
                                 f'{stored["rounds"]} rounds and no checkpoint to go on from; {_WAY_OUT}')
        return self.has_summary()

    def history(self, rounds=None):
        """Metrics of all rounds, or of 1 to `rounds`, after which nothing is looked at, not even half a line.

        What the file has lost comes from TensorBoard's events, in their seven digits, or is a gap: NaN, marked so.
        """
        found = {metrics['round']: metrics for metrics in self._whole_lines()}
        last = max(found, default=0) if rounds is None else rounds
        if missing := [number for number in range(1, last + 1) if number not in found]:
            logged = {number: row for number, row in event_files.scalars(self.path).items() if number in missing}
            found |= {number: {'round': number} | row for number, row in logged.items()}
            gaps = [number for number in missing if number not in logged]
            found |= {number: {'round': number, 'gap': True} for number in gaps}
            logging.warning('%s is damaged: rounds %s come from TensorBoard\'s events%s', self._metrics,
                            sorted(logged) or 'of none', f', rounds {gaps} are a gap' if gaps else '')
        keys = dict.fromkeys(key for metrics in found.values() for key in metrics if key != 'gap')
        return [{key: math.nan if (value := found[number].get(key)) is None else value for key in keys}
                | ({'gap': True} if 'gap' in found[number] else {}) for number in range(1, last + 1)]

    def _whole_lines(self):
        """The rounds of metrics.jsonl that can be read."""
        for line in self._metrics.read_bytes().splitlines() if self._metrics.exists() else ():
            with contextlib.suppress(ValueError):     # also of UTF-8
                metrics = json.loads(line)
                if isinstance(metrics, dict) and isinstance(metrics.get('round'), int):
                    yield metrics

    def progress(self):
        """The Progress that metrics.jsonl shows; a line that is being written does not count."""
        lines = self._metrics.read_bytes().splitlines(keepends=True) if self._metrics.exists() else []
        lines = [line for line in lines if line.endswith(b'\n')]
        return Progress(len(lines), json.loads(lines[-1]) if lines else {})

    def read(self):
        """The finished Run."""
        self._check_exists()
        if not self.has_summary():
            raise self._instead('has no finished run', self._summary, 'the command that began it continues it')
        config = self.config()
        return Run(config['settings'], self.table(), config['data'], self.path)

    def table(self):
        """{metric: values by round [R]} of the rounds that are there, NaN where not finite."""
        history = self.history()
        return {key: np.array([row.get(key, np.nan) for row in history], float) for key in (history or [{}])[0]}

    def open_metrics(self, history):
        """metrics.jsonl with these rounds, open for those to come."""
        with safe_files.replacing(self._metrics) as file:
            file.writelines(f'{strict_json.to_json(metrics)}\n'.encode() for metrics in history)
        return open(self._metrics, 'a', encoding='utf-8')

    def begin(self, config, clients=None):
        """The run goes on, or begins: it is not finished."""
        self._summary.unlink(missing_ok=True)
        if clients:
            with safe_files.replacing(self._clients) as file:     # on one line: there may be thousands
                file.write(f'{strict_json.to_json(clients)}\n'.encode())
        strict_json.write(self._config, config)

    def finish(self, summary):
        strict_json.write(self._summary, summary)

    def clear(self):
        """Removes what the folder holds of a run, the means to continue it first."""
        checkpoints, doomed = self.path / 'checkpoints', self.path / 'checkpoints.old'
        if doomed.exists():
            shutil.rmtree(doomed)
        if checkpoints.exists():
            checkpoints.rename(doomed)   # at once: half of them would look like damage
            shutil.rmtree(doomed)
        for path in (*self.path.glob('events.out.tfevents.*'), self._summary, self._metrics):
            path.unlink(missing_ok=True)

    def forget(self):
        """`clear` for a folder that nobody holds."""
        if self.path.exists():
            with safe_files.locked(self.path):
                self.clear()


def finished_below(folder):
    """Finished runs in the folders seed-* of a folder, by seed."""
    runs = [RunFolder(path.parent).read() for path in folder.glob('seed-*/summary.json')]
    return sorted(runs, key=lambda run: run.seed)
