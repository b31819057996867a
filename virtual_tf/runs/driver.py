"""From settings to a run: checks everything first, then builds data, network and method, and plays the rounds."""
import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import pathlib
import platform
import shutil
import subprocess

import numpy as np

from virtual_tf import data
from virtual_tf.core import safe_files
from virtual_tf.networks import models
from virtual_tf.runs import hooks, pictures, snr
from virtual_tf.simulator import checkpoints, rounds
from virtual_tf.methods import ALGORITHMS
from virtual_tf.core.errors import Interrupted, RunError, VirtualTfError

# Which compiler runs the client loop faster, by measurement (BUILD_NOTES.md).
FASTER_COMPILER = {'mlp': 'xla'}
_WAY_OUT = '--noresume replaces that run, another output_dir keeps both'
_PACKAGES = ('tensorflow', 'tensorflow-probability', 'tf-keras', 'numpy')


def check_names(settings):
    """Refuses names that nothing stands behind, with the list of those that something does."""
    data.loader(settings.dataset)
    for name, known in (('method', ALGORITHMS), ('model', models.MODELS)):
        value = getattr(settings, name)
        if value not in known:
            raise VirtualTfError(f'{name} {value!r} is unknown; known are {", ".join(sorted(known))}')


def check_fits(settings, dataset):
    """Refuses settings that this data cannot serve."""
    if settings.clients_per_round > len(dataset.clients):
        raise VirtualTfError(f'clients_per_round = {settings.clients_per_round} is more than the '
                             f'{len(dataset.clients)} clients of {dataset.name}')
    models.check_input(settings.model, dataset.train.x)


def _with_compiler(settings):
    if settings.compile != 'auto':
        return settings
    return dataclasses.replace(settings, compile=FASTER_COMPILER.get(settings.model, 'graph'))


def build_method(settings, dataset):
    """(network, algorithm, settings with the compiler chosen) for examples like those of the data set."""
    settings = _with_compiler(settings)
    network = models.build(settings.model, dataset.input_shape, dataset.num_classes,
                           use_bias=settings.use_bias, estimator=settings.estimator)
    return network, ALGORITHMS[settings.method](network, settings), settings


def build(settings, dataset, make=rounds.Simulation):
    """The Simulation of these settings on this data."""
    check_fits(settings, dataset)
    network, algorithm, settings = build_method(settings, dataset)
    return make(network, algorithm, dataset, settings)


def run(settings, dataset, folder, progress=True, resume=True, stop=lambda: False, more_hooks=(),
        make=rounds.Simulation):
    """Plays the rounds that `folder` does not hold yet and writes everything about them; returns (summary, history).

    With resume=False it starts anew and replaces what is there. stop() is asked after every round; when it says yes,
    the run writes a checkpoint and raises Interrupted. make(network, algorithm, dataset, settings) is what
    plays the rounds.
    """
    simulation = build(settings, dataset, make)
    folder = pathlib.Path(folder)
    safe_files.check_writable(folder)
    try:
        with safe_files.locked(folder):
            return _run_in(folder, simulation, describe(settings, dataset), progress, resume, stop, more_hooks)
    except OSError as error:
        raise RunError(f'writing to {folder} failed ({error.strerror or error}); the last checkpoint is intact, so put '
                       'that right and give the same command again') from error


def check_folder(settings, folder, resume=True):
    """Refuses a folder that cannot be written or holds another run; returns the rounds of this run that it holds."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    safe_files.check_writable(folder)
    with safe_files.locked(folder):
        found = checkpoints.Checkpoints(folder / 'checkpoints').newest(with_clients=False) if resume else None
    # Made for the check alone, nothing is left behind if another check fails; unless another command uses it by now.
    with contextlib.suppress(OSError):
        for parent in missing:
            parent.rmdir()
    if found is None:
        return 0
    _check_continues(_with_compiler(settings), found, found.identity, folder)
    return found.round


def _run_in(folder, simulation, config, progress, resume, stop, more_hooks):
    settings, points = simulation.settings, checkpoints.Checkpoints(folder / 'checkpoints')
    identity = {'settings': dataclasses.asdict(settings), 'place': simulation.place,
                'data': _digest(simulation.dataset),
                'network': {name: list(shape) for name, shape in simulation.network.shapes().items()}}
    found, history = points.newest() if resume else None, []
    if found is None:
        _remove_previous(folder)
    else:
        _check_continues(settings, found, identity, folder)
        history = hooks.read_history(folder / 'metrics.jsonl', found.round)
        if found.round == settings.rounds and (folder / 'summary.json').exists():
            return rounds.summarise(history), history
    state = simulation.start(points.clients_folder)
    if found is not None:
        points.restore(state, found)
    (folder / 'summary.json').unlink(missing_ok=True)
    write_json(folder / 'config.json', config)
    with contextlib.ExitStack() as stack:
        watchers = [stack.enter_context(contextlib.closing(hook)) for hook in (
            hooks.JsonLines(folder / 'metrics.jsonl', history),
            hooks.TensorBoard(folder, settings, history), snr.Distributions(folder, simulation, state),
            *([hooks.ProgressBar(settings.variant(), settings.rounds, state.round)] if progress else []),
            *more_hooks)]
        _play(simulation, state, history, watchers, lambda: points.save(state, identity), stop)
        summary = rounds.summarise(history)
        for hook in watchers:
            hook.on_end(summary)
    pictures.learning_curves({settings.variant(): history}, folder / 'learning_curves.png', title(settings))
    # The last of all: with a summary, the run is finished.
    write_json(folder / 'summary.json', summary)
    return summary, history


def _play(simulation, state, history, watchers, save, stop):
    """The rounds that are left, with their hooks and checkpoints."""
    every, last = simulation.settings.checkpoint_every, simulation.settings.rounds
    if stop():
        raise Interrupted(f'stopped before round {state.round + 1}')
    for metrics in simulation.run(state):
        history.append(metrics)
        for hook in watchers:
            hook.on_round(metrics, simulation, state)
        stopping = state.round < last and stop()
        if every and (stopping or state.round % every == 0 or state.round == last):
            for hook in watchers:
                hook.flush()
            save()
        if stopping:
            raise Interrupted(f'stopped after round {state.round} of {last}; ' + (
                'the same command continues from there' if every else 'nothing to continue from, checkpoint_every = 0'))


def _check_continues(settings, found, identity, folder):
    """Refuses to continue a run with what would have changed its rounds."""
    check_same(settings.differences(found.identity['settings']), folder)
    place = found.identity.get('place', rounds.Simulation.place)
    if identity.get('place', place) != place:
        raise VirtualTfError(f'{folder} holds a run of the {place}, whose clients\' states are not here; '
                             f'{_WAY_OUT}')
    if identity['network'] != found.identity.get('network'):
        raise VirtualTfError(f'{folder} holds a run of another network under the name {settings.model}; {_WAY_OUT}')
    if identity['data'] != found.identity['data']:
        raise VirtualTfError(f'{folder} holds a run with other data under the name {settings.dataset}; {_WAY_OUT}')
    if settings.rounds < found.round:
        raise VirtualTfError(f'rounds = {settings.rounds}, but the run in {folder} has played {found.round} already; '
                             f'{_WAY_OUT}')


def check_same(differences, folder):
    """Refuses a folder whose run has other settings: {name: (then, now)}"""
    if differences:
        named = ', '.join(f'{name} = {now!r} (there: {then!r})' for name, (then, now) in differences.items())
        raise VirtualTfError(f'{folder} holds a run with other settings: {named}; {_WAY_OUT}')


def _digest(dataset):
    """SHA-256 of all examples and of who has them."""
    digest = hashlib.sha256()
    for split in (dataset.train, dataset.test, dataset.validation or ()):
        for array in split:
            digest.update(f'{array.dtype.str}{array.shape}'.encode())
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return digest.hexdigest()


def describe(settings, dataset):
    """config.json: all settings, the data, versions and the commit."""
    return {'settings': dataclasses.asdict(settings),
            'data': {'name': dataset.name, 'clients': len(dataset.clients), 'caveat': dataset.caveat,
                     'train_examples': len(dataset.train.y), 'test_examples': len(dataset.test.y)},
            'versions': {'python': platform.python_version()} | {
                name: importlib.metadata.version(name) for name in _PACKAGES},
            'git_commit': git_commit()}


def title(settings, seeds=None):
    """What a picture of these runs shows."""
    named = ', '.join(seeds or [str(settings.seed)])
    return (f'{settings.dataset}, {settings.model}: C = {settings.clients_per_round}, E = {settings.epochs}, '
            f'seed {named}')


def git_commit():
    """The commit of the source tree, '' outside a checkout."""
    here = pathlib.Path(__file__).parent
    try:
        # --exclude: the commit itself, not the name of a tag.
        answer = subprocess.run(['git', 'describe', '--always', '--dirty', '--abbrev=40', '--exclude=*'], cwd=here,
                                capture_output=True, text=True)
    except FileNotFoundError:
        return ''
    return answer.stdout.strip()


def forget(folder):
    """Removes what a folder holds of a run, so that the next one starts anew."""
    if folder.exists():
        with safe_files.locked(folder):
            _remove_previous(folder)


def _remove_previous(folder):
    """A run replaces the one that its folder held, the means to continue that one first."""
    checkpoints, doomed = folder / 'checkpoints', folder / 'checkpoints.old'
    if doomed.exists():
        shutil.rmtree(doomed)
    if checkpoints.exists():
        checkpoints.rename(doomed)   # at once: half of them would look like damage
        shutil.rmtree(doomed)
    for path in (*folder.glob('events.out.tfevents.*'), folder / 'summary.json', folder / 'metrics.jsonl'):
        path.unlink(missing_ok=True)


def write_json(path, value):
    """Indented, strict JSON."""
    with safe_files.replacing(path) as file:
        file.write((json.dumps(json.loads(hooks.to_json(value)), indent=2) + '\n').encode())
