"""A client that joins a finished federation: one visit to the server as it is now, of which the server learns nothing.

simulator/unseen.py has the visit; what is kept of it here is a run of one client and one round.
"""
import dataclasses
from typing import NamedTuple

import numpy as np

from virtual_tf import data
from virtual_tf.core import safe_files
from virtual_tf.core.errors import RunError, VirtualTfError
from virtual_tf.data.federated import FederatedDataset, Split
from virtual_tf.methods import registry
from virtual_tf.methods.interface import Training
from virtual_tf.runs import final_scores, inputs, provenance
from virtual_tf.runs.folder import RunFolder
from virtual_tf.runs.model import Model
from virtual_tf.runs.summary import summarise
from virtual_tf.simulator import unseen
from virtual_tf.simulator.client_store import ClientStore
from virtual_tf.simulator.evaluation import Evaluator
from virtual_tf.simulator.rounds import RunState, Simulation, of_clients


class Adapted(NamedTuple):
    """A newcomer's visit."""
    model: Model
    training: Training     # of the one client [1]


def adapt(run, x, y, epochs=20, name='new client'):
    """The Adapted of labelled examples [N, …], after so many epochs from the server of an OpenedRun."""
    x, y = inputs.labelled(x, y, run.parts.outline)
    split = Split.of([(x, y)])
    return train(run, FederatedDataset(name, (name,), split, split, run.parts.outline.num_classes), epochs)


def load(run, data_dir, source):
    """The data of a newcomer from a source such as npz:FILE, prepared as the run's was; refuses what does not fit."""
    settings = run.settings.replace(split='', validation_fraction=0.0, unseen_fraction=0.0)
    if settings.standardize == 'global':
        raise VirtualTfError('the run standardised its features by the data of all clients, which that of a newcomer '
                             'is not part of; scale yours in the same way and use open_run(FOLDER).adapt(x, y)')
    dataset = data.load_alone(data_dir, settings, source)
    for split in (dataset.train, dataset.test):
        inputs.labelled(*split.client(0), run.parts.outline)
    return dataclasses.replace(dataset, num_classes=run.parts.outline.num_classes)


def train(run, dataset, epochs):
    """The visit of the one client of a data set."""
    if epochs < 1:
        raise VirtualTfError(f'epochs must be at least 1, got {epochs}')
    settings, number = run.parts.settings.replace(epochs=epochs, compile='graph'), len(run.clients)
    algorithm = registry.find(settings.method).make(run.parts.network, settings)
    state, training = unseen.visit(algorithm, run.server_state, dataset, np.array([0]), [number], settings)
    if not training.accepted.numpy().all():
        raise RunError('training gave numbers that are not finite, so there is no model; fewer epochs, or features of '
                       'the scale of the run\'s data, may help')
    return Adapted(Model(run.parts, state, dataset.clients[0], number, run.checkpoint.round), training)


def check_output(folder):
    """Refuses a folder that holds a run, or cannot be written."""
    if RunFolder(folder).begun():
        raise VirtualTfError(f'{folder} holds a run already; give another output')
    safe_files.check_writable(folder, 'output')


def save(run, adapted, dataset, folder):
    """Writes the newcomer as a run of one client and one round, which can be opened; returns its metrics."""
    check_output(folder)
    folder, parts = RunFolder(folder), run.parts
    simulation = Simulation(parts.network, parts.algorithm, dataset, parts.settings)
    evaluator = Evaluator(parts.network, parts.algorithm, dataset.test, parts.settings, [len(run.clients)])
    scores = evaluator.server(run.server_state) | evaluator.clients(adapted.model.state, np.array([0]))
    store = ClientStore(lambda ids: adapted.model.state, folder.checkpoints.clients_folder)
    store.write([0], adapted.model.state)
    accepted, sizes = adapted.training.accepted.numpy(), dataset.train.targets()
    metrics = {'round': 1, **of_clients(adapted.training, accepted, sizes), **{
        f'{model}/{key}': value for model, found in scores.items() for key, value in found.summary().items()}}
    identity = provenance.identity(simulation)
    folder.begin(provenance.describe(run.settings.replace(rounds=1), dataset, identity['data'])
                 | {'adapted_from': str(run.path)}, provenance.describe_clients(dataset))
    folder.open_metrics([metrics]).close()
    folder.checkpoints.save(RunState(run.server_state, store, 1, scores), identity)
    final_scores.save(folder.path, scores)
    folder.finish(summarise([metrics | {'seconds': 0.0}]))
    return metrics
