"""From settings to a run: checks everything first, then builds network and method, and plays the rounds."""
import contextlib
import itertools
import pathlib

from absl import logging

from virtual_tf import data
from virtual_tf.core import safe_files
from virtual_tf.core.errors import Interrupted, NothingLearntError, RunError, VirtualTfError
from virtual_tf.core.settings import Settings
from virtual_tf.data.federated import FederatedDataset
from virtual_tf.methods import registry
from virtual_tf.networks import models
from virtual_tf.runs import hooks, pictures, provenance
from virtual_tf.runs.folder import RunFolder
from virtual_tf.runs.summary import summarise
from virtual_tf.simulator import side_by_side, unseen
from virtual_tf.simulator.rounds import Simulation

_EMPTY_ROUNDS = 3     # in a row, after which a run that learns nothing ends


def check_names(settings):
    """Refuses names that nothing stands behind, with the list of those that something does."""
    data.loader(settings.dataset)
    data.label_skew.parse(settings.split)
    registry.find(settings.method)
    models.find(settings.model)


def check_fits(settings, dataset):
    """Refuses settings that this data cannot serve."""
    if settings.clients_per_round > len(dataset.clients):
        raise VirtualTfError(f'clients_per_round = {settings.clients_per_round} is more than the '
                             f'{len(dataset.clients)} clients of {dataset.name}; choose fewer')
    models.check_input(settings.model, dataset.train.x)


def build(settings, dataset, make=Simulation):
    """The Simulation of these settings on this data."""
    check_fits(settings, dataset)
    side_by_side.prepare(registry.with_compiler(settings))
    network, algorithm, settings = registry.build(settings, dataset)
    return make(network, algorithm, dataset, settings)


def run(settings, dataset, folder, progress=True, resume=True, stop=lambda: False, more_hooks=(), make=Simulation):
    """Plays the rounds that `folder` does not hold yet and writes everything about them; returns (summary, history).

    With resume=False it starts anew and replaces what is there. stop() is asked after every round; when it says yes,
    the run writes a checkpoint and raises Interrupted. make(network, algorithm, dataset, settings) is what
    plays the rounds.
    """
    if not isinstance(settings, Settings) or not isinstance(dataset, FederatedDataset):
        raise VirtualTfError(f'run takes settings, a data set and a folder; got {type(settings).__name__} and '
                             f'{type(dataset).__name__} (make_settings and load_data make them)')
    simulation = build(settings, dataset, make)
    folder = RunFolder(pathlib.Path(folder))
    safe_files.check_writable(folder.path)
    try:
        with safe_files.locked(folder.path):
            return _run_in(folder, settings, simulation, progress, resume, stop, more_hooks)
    except OSError as error:
        state = 'the last checkpoint is intact, so' if folder.checkpoints.exist() else 'there is no checkpoint yet;'
        raise RunError(f'writing to {folder.path} failed ({error.strerror or error}); {state} put that right and give '
                       'the same command again') from error


def _run_in(folder, given, simulation, progress, resume, stop, more_hooks):
    settings, identity = simulation.settings, provenance.identity(simulation)
    found, history = folder.checkpoints.newest() if resume else None, []
    if found is None:
        if resume and folder.check_without_checkpoint(given, identity['data']):
            return folder.summary(), folder.history()
        folder.clear()
    else:
        folder.check_continues(settings, found, identity)
        history = folder.history(found.round)
        if found.round == settings.rounds and folder.has_summary():
            return _with_unseen(summarise(history), folder.summary().get('unseen')), history
    state = simulation.start(folder.checkpoints.clients_folder)
    if found is not None and (missing := folder.checkpoints.restore(state, found)):
        simulation.measure_again(state, missing)
    folder.begin(provenance.describe(given, simulation.dataset, identity['data']),
                 provenance.describe_clients(simulation.dataset))
    with contextlib.ExitStack() as stack:
        watchers = [stack.enter_context(contextlib.closing(hook)) for hook in (
            hooks.JsonLines(folder, history), hooks.TensorBoard(folder.path, settings, history),
            hooks.SnrDistributions(folder.path, simulation, state),
            hooks.ScorePictures(folder.path, state, settings.variant(), title(settings)),
            *([hooks.ProgressBar(settings.variant(), settings.rounds, state.round)] if progress else []),
            *more_hooks)]
        _play(simulation, state, history, watchers, lambda: folder.checkpoints.save(state, identity), stop)
        summary = _with_unseen(summarise(history), unseen.measure(simulation, state.server))
        for hook in watchers:
            hook.on_end(summary)
    pictures.learning_curves({settings.variant(): history}, folder.path / 'learning_curves.png', title(settings))
    folder.finish(summary)
    return summary, history


def _with_unseen(summary, found):
    """The summary, with what the clients have that nobody has seen; as JSON has it, so that both are the same."""
    return summary | ({'unseen': {str(epochs): scores for epochs, scores in found.items()}} if found else {})


def _play(simulation, state, history, watchers, save, stop):
    """The rounds that are left, with their hooks and checkpoints."""
    every, last = simulation.settings.checkpoint_every, simulation.settings.rounds
    if stop():
        raise Interrupted(f'stopped before round {state.round + 1}')
    for metrics in simulation.run(state):
        history.append(metrics)
        for hook in watchers:
            hook.on_round(metrics, simulation, state)
        _check_learning(history)
        stopping = state.round < last and stop()
        if every and (stopping or state.round % every == 0 or state.round == last):
            for hook in watchers:
                hook.flush()
            save()
        if stopping:
            raise Interrupted(f'stopped after round {state.round} of {last}; ' + (
                'the same command continues from there' if every else 'nothing to continue from, checkpoint_every = 0'))


def _check_learning(history):
    """Ends a run in which nobody's training has been usable for several rounds."""
    empty = list(itertools.takewhile(lambda row: row.get('applied_clients', 1) == 0 and row['dropped_clients'] > 0,
                                     reversed(history)))
    if empty:
        logging.error('round %d: all %d clients that trained were dropped, so nothing was learnt', history[-1]['round'],
                      history[-1]['dropped_clients'])
    if len(empty) >= _EMPTY_ROUNDS:
        raise NothingLearntError(
            f'in {len(empty)} rounds in a row the training of every client gave numbers that are not finite, so '
            'nothing is learnt; --standardize=client, a smaller --client_lr or another model may help')


def title(settings, seeds=None):
    """What a picture of these runs shows."""
    named = ', '.join(seeds or [str(settings.seed)])
    return (f'{settings.dataset}, {settings.model}: C = {settings.clients_per_round}, E = {settings.epochs}, '
            f'seed {named}')
