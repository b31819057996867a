"""Checkpoints: the state of a run after a round, in one file that is written whole or not at all.

    <folder>/round-000020.ckpt    round, identity (settings and data), the server's state, scores, clients' manifest
    <folder>/clients/7.18         client 7 as of round 18; see store.py

The last few are kept. A file that is damaged, or whose manifest names a client file that is, is passed over.
"""
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from virtual_tf.core import safe_files
from virtual_tf.core.errors import ANEW, VirtualTfError
from virtual_tf.simulator import client_store

KEPT = 3


class Checkpoint(NamedTuple):
    round: int
    identity: dict    # what a run that continues has to agree with, for JSON
    server: list      # leaves of the server's state
    scores: dict      # {model: {metric: sums [K, …]}} as RunState has them
    manifest: dict    # {client: version}


class Checkpoints:
    """The checkpoints in a folder, newest last."""

    def __init__(self, folder):
        self._folder, self.clients_folder = folder, folder / 'clients'
        self._manifests = {}     # path → manifest, of those that are kept

    def exist(self):
        return any(self._folder.glob('round-*.ckpt'))

    def newest(self, with_clients=True):
        """The newest Checkpoint that is whole, also in its clients if they are to be read; None without a file."""
        found, damaged = None, []
        for path in self._newest_first():
            try:
                checkpoint = _decode(*safe_files.read_record(path))
                if found is None and with_clients:
                    client_store.verify(self.clients_folder, checkpoint.manifest)
            except safe_files.DamagedFileError as error:
                logging.warning('%s; checkpoint %s is passed over', error, path.name)
                damaged.append(path)
            else:
                found = found or checkpoint
                self._manifests[path] = checkpoint.manifest
        if damaged and found is None:
            raise self._none_is_whole(damaged)
        for path in damaged:
            path.rename(path.with_suffix('.damaged'))
        return found

    def peek(self, usable=lambda checkpoint: True):
        """The newest Checkpoint that is whole and `usable`, for a reader beside the run: it changes nothing.

        usable(checkpoint) may raise DamagedFileError too. A run that goes on removes what it has replaced, also while
        it is being read; then there are newer ones.
        """
        while paths := self._newest_first():
            for path in paths:
                try:
                    checkpoint = _decode(*safe_files.read_record(path))
                    if usable(checkpoint):
                        return checkpoint
                except safe_files.DamagedFileError as error:
                    logging.warning('%s; checkpoint %s is passed over', error, path.name)
            if self._newest_first() == paths:
                raise self._none_is_whole(paths)
        return None

    def _newest_first(self):
        return sorted(self._folder.glob('round-*.ckpt'), reverse=True)

    def _none_is_whole(self, paths):
        return VirtualTfError(f'none of the {len(paths)} checkpoints in {self._folder} is whole; {ANEW} starts the run '
                              'anew')

    def save(self, state, identity):
        """Writes the RunState and removes what the last few checkpoints no longer need."""
        checkpoint = Checkpoint(
            state.round, identity, [np.asarray(leaf) for leaf in tf.nest.flatten(state.server)],
            {model: scores.sums for model, scores in state.scores.items()}, state.clients.save())
        path = self._folder / f'round-{state.round:06d}.ckpt'
        with safe_files.replacing(path) as file:
            safe_files.write_record(file, *_encode(checkpoint))
        self._manifests[path] = checkpoint.manifest
        for old in sorted(self._manifests)[:-KEPT]:
            old.unlink()
            del self._manifests[old]
        state.clients.keep(self._manifests.values())

    def restore(self, state, checkpoint):
        """Brings a RunState, as it was before the first round, to the checkpoint.

        Returns what the checkpoint lacks of its scores: {model: [metric, …]}.
        """
        state.round = checkpoint.round
        state.server = tf.nest.pack_sequence_as(state.server, [tf.constant(leaf) for leaf in checkpoint.server])
        for model, scores in state.scores.items():
            scores.sums.update({name: value.copy() for name, value in checkpoint.scores.get(model, {}).items()
                                if name in scores.sums})
        state.clients.restore(checkpoint.manifest, self._manifests.values())
        lacking = {model: [metric for metric in scores.sums if metric not in checkpoint.scores.get(model, ())]
                   for model, scores in state.scores.items()}
        return {model: metrics for model, metrics in lacking.items() if metrics}


def _encode(checkpoint):
    """Header and arrays of a record."""
    manifest = np.array(list(checkpoint.manifest.items()), np.int64).reshape(-1, 2)
    named = [(model, metric) for model, sums in checkpoint.scores.items() for metric in sums]
    header = {'round': checkpoint.round, 'identity': checkpoint.identity, 'scores': named}
    return header, [manifest, *(checkpoint.scores[model][metric] for model, metric in named), *checkpoint.server]


def _decode(header, arrays):
    named = header['scores'] if 'scores' in header else _named_before(header['mt'])
    manifest, sums, server = arrays[0], arrays[1:1 + len(named)], arrays[1 + len(named):]
    scores = {}
    for (model, metric), array in zip(named, sums):
        scores.setdefault(model, {})[metric] = array
    return Checkpoint(header['round'], header['identity'], server, scores, dict(manifest.tolist()))


def _named_before(prefixes):
    """The scores of checkpoints of version 0.1: loss and hits of each split, and of S where clients had measured it."""
    models = [prefix if prefix.endswith('server') else f'{prefix}mt' for prefix in prefixes]
    return [(model, metric) for model in models for metric in ('loss', 'hits')]
