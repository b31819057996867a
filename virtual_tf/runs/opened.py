"""A run as something to use: its settings, its history, and the models of its server and of each client.

Finished or not, it is only read. Of the clients no more than the one that is asked for.
"""
import contextlib
import difflib
import functools
import pathlib

import numpy as np
import tensorflow as tf
from absl import logging

from virtual_tf import data
from virtual_tf.core import plugins, random_streams, safe_files
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.data.download import DATA_DIR
from virtual_tf.data.federated import FederatedDataset, Split
from virtual_tf.methods import registry
from virtual_tf.runs import adaptation, provenance
from virtual_tf.runs.folder import RunFolder
from virtual_tf.runs.model import Model, Parts
from virtual_tf.simulator import client_store
from virtual_tf.simulator.rounds import Simulation

_NEAR = 3   # names that are offered for one that is unknown


def open_run(folder, data_dir=DATA_DIR):
    """The OpenedRun of a folder; raw data is looked for below data_dir, where it is needed at all."""
    folder = RunFolder(pathlib.Path(folder).expanduser())
    folder.check_begun()
    return OpenedRun(folder, data_dir)


class OpenedRun:
    """A run that is finished, or goes on: what its folder holds now."""

    def __init__(self, folder, data_dir):
        self._folder, self._data_dir = folder, data_dir
        self.path, self.config = folder.path, folder.config()
        _check_plugins(folder.path, self.config.get('plugins', {}))
        self.settings = registry.read_settings(self.config['settings'])
        self._compiled = {}     # functions that all models of the run use

    def __repr__(self):
        return f'OpenedRun({str(self.path)!r}: {self.settings.variant()} on {self.settings.dataset})'

    @property
    def history(self):
        """{metric: values by round [R]}: the table of what was measured."""
        return self._folder.table()

    def rows(self):
        """The history as a list of dicts, one a round."""
        return self._folder.history()

    @property
    def finished(self):
        return self._folder.has_summary()

    @functools.cached_property
    def clients(self):
        """Names of all clients."""
        return self._outline.clients

    @functools.cached_property
    def checkpoint(self):
        """The newest Checkpoint that is whole, as it was when first asked for."""
        found = self._folder.checkpoints.peek()
        if found is None:
            raise VirtualTfError(f'{self.path} has no checkpoint, so it has no models, only its history; a run with '
                                 'checkpoint_every above 0 keeps them')
        return found

    @functools.cached_property
    def server(self):
        """The server's Model."""
        return Model(self.parts, self.server_state, 'server', round=self.checkpoint.round, shared=self._compiled)

    def client(self, name):
        """The Model of one client; the server's, and a warning, if it was never selected."""
        number = self._number(name)
        place = self.checkpoint.identity.get('place', Simulation.place)
        if place != Simulation.place:
            raise VirtualTfError(f'{self.path} is a run of {place}, where each client keeps its model to itself; '
                                 'run.server is here')
        if number not in self.checkpoint.manifest:
            logging.warning('client %r was never selected in %d rounds: it answers with the server\'s model', str(name),
                            self.checkpoint.round)
            whole = self.parts.algorithm.server_model is not None
            return Model(self.parts, self.server_state if whole else self.fresh_client(number=number), str(name),
                         None if whole else number, self.checkpoint.round, trained=False, shared=self._compiled)
        found, state = self._read_client(number)
        return Model(self.parts, state, str(name), number, found.round, shared=self._compiled)

    def client_accuracies(self):
        """{client: (accuracy of its own model, test targets)} of those that have trained, as last measured."""
        targets, found = self._described[1]['test_targets'], self.checkpoint
        return {self.clients[i]: (float(found.scores['mt']['hits'][i]) / targets[i], targets[i])
                for i in sorted(found.manifest) if targets[i]}

    def adapt(self, x, y, epochs=20, name='new client'):
        """The Model of a client that joins with these examples, trained from the server; the run is not changed."""
        return adaptation.adapt(self, x, y, epochs, name).model

    @functools.cached_property
    def parts(self):
        """Network, algorithm, settings and outline of the data: what all models share."""
        network, algorithm, settings = registry.build(self.settings, self._outline)
        then = self.checkpoint.identity.get('network')
        if then != {name: list(shape) for name, shape in network.shapes().items()}:
            raise VirtualTfError(f'{self.path} holds a run of another network under the name {settings.model}; load '
                                 'the plug-in, or use the version, that it was played with')
        return Parts(network, algorithm, settings, self._outline)

    def load_data(self):
        """The FederatedDataset that the run was played on, if it is still the same."""
        dataset = data.load(self._data_dir, self.settings)
        if self.config['data'].get('sha256', '') not in ('', provenance.digest(dataset)):
            raise VirtualTfError(f'{self.settings.dataset} is not the data any more that {self.path} was played on; '
                                 'bring that back, or name its data_dir')
        return dataset

    @functools.cached_property
    def server_state(self):
        """The state of the server, as the method has it."""
        start = self.parts.algorithm.init(self.settings.seed)
        return tf.nest.pack_sequence_as(start, list(map(tf.constant, self.checkpoint.server)))

    def _read_client(self, number):
        """(Checkpoint, state [1, …]) of a client that has trained, from the newest checkpoint that has it whole."""
        structure = self.parts.algorithm.init_clients(
            self.server_state, np.zeros(1, np.float32), random_streams.make_keys(self.settings.seed))
        read = {}

        def usable(checkpoint):
            read['state'] = client_store.read_one(
                self._folder.checkpoints.clients_folder, number, checkpoint.manifest[number], structure)
            return True

        with contextlib.suppress(safe_files.DamagedFileError):     # then there is a newer checkpoint, or an older one
            usable(self.checkpoint)
            return self.checkpoint, read['state']
        found = self._folder.checkpoints.peek(lambda checkpoint: number in checkpoint.manifest and usable(checkpoint))
        return found, read['state']

    def _number(self, name):
        """The position of a client among all."""
        try:
            return self.clients.index(str(name))
        except ValueError:
            near = difflib.get_close_matches(str(name), self.clients, _NEAR, cutoff=0.0)
            raise VirtualTfError(f'client {str(name)!r} is unknown; nearest of {len(self.clients)} are '
                                 f'{", ".join(map(repr, near))}') from None

    @functools.cached_property
    def _outline(self):
        """The run's data without its examples."""
        shapes, clients = self._described
        empty = Split(np.zeros([0, *shapes['input_shape']], shapes['input_type']),
                      np.zeros([0, *shapes['target_shape']], np.int32), np.zeros(len(clients['names']) + 1, np.int64))
        return FederatedDataset(self.config['data']['name'], tuple(clients['names']), empty, empty,
                                shapes['num_classes'])

    @functools.cached_property
    def _described(self):
        """(provenance.shapes, describe_clients); a run of a version that did not keep them needs its data."""
        said, clients = self.config['data'], self._folder.clients()
        if clients is None or 'input_shape' not in said:
            dataset = self.load_data()
            return provenance.shapes(dataset), provenance.describe_clients(dataset)
        return said, clients


def _check_plugins(path, names):
    """Refuses a run whose plug-ins are not loaded."""
    if missing := sorted({*names} - {*plugins.digests()}):
        raise VirtualTfError(f'{path} was played with the plug-in {missing[0]}, which is not loaded; load it first, '
                             'with load_plugin(FILE) or --plugins=FILE')
