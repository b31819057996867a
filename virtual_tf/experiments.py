"""From settings to a run: checks everything first, then builds data, network and method, and plays the rounds."""
import dataclasses
import importlib.metadata
import json
import pathlib
import platform
import subprocess

from virtual_tf import data, hooks, models, plots, training
from virtual_tf.algorithms import ALGORITHMS
from virtual_tf.types import VirtualTfError

# Which compiler runs the client loop faster, by measurement (BUILD_NOTES.md).
FASTER_COMPILER = {'mlp': 'xla'}
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


def build(settings, dataset):
    """The Simulation of these settings on this data."""
    check_fits(settings, dataset)
    if settings.compile == 'auto':
        settings = dataclasses.replace(settings, compile=FASTER_COMPILER.get(settings.model, 'graph'))
    network = models.build(settings.model, dataset.input_shape, dataset.num_classes,
                           use_bias=settings.use_bias, estimator=settings.estimator)
    return training.Simulation(network, ALGORITHMS[settings.method](network, settings), dataset, settings)


def run(settings, dataset, folder, progress=True):
    """Plays all rounds and writes everything about them into `folder`; returns (summary, history)."""
    simulation = build(settings, dataset)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _remove_previous(folder)
    write_json(folder / 'config.json', describe(settings, dataset))
    watchers = [hooks.JsonLines(folder / 'metrics.jsonl'), hooks.TensorBoard(folder, settings)]
    if progress:
        watchers.append(hooks.ProgressBar(settings.variant(), settings.rounds))
    history = []
    try:
        state = simulation.start()
        for metrics in simulation.run(state):
            history.append(metrics)
            for hook in watchers:
                hook.on_round(metrics, simulation, state)
        summary = training.summarise(history)
        for hook in watchers:
            hook.on_end(summary)
    finally:
        for hook in watchers:
            hook.close()
    write_json(folder / 'summary.json', summary)
    plots.learning_curves({settings.variant(): history}, folder / 'learning_curves.png', title(settings))
    return summary, history


def describe(settings, dataset):
    """config.json: all settings, the data, versions and the commit."""
    return {'settings': dataclasses.asdict(settings),
            'data': {'name': dataset.name, 'clients': len(dataset.clients), 'caveat': dataset.caveat,
                     'train_examples': len(dataset.train.y), 'test_examples': len(dataset.test.y)},
            'versions': {'python': platform.python_version()} | {
                name: importlib.metadata.version(name) for name in _PACKAGES},
            'git_commit': _git_commit()}


def title(settings):
    return (f'{settings.dataset}, {settings.model}: C = {settings.clients_per_round}, E = {settings.epochs}, '
            f'seed {settings.seed}')


def _git_commit():
    """The commit of the source tree, '' outside a checkout."""
    here = pathlib.Path(__file__).parent
    try:
        answer = subprocess.run(['git', 'describe', '--always', '--dirty', '--abbrev=40'], cwd=here,
                                capture_output=True, text=True)
    except FileNotFoundError:
        return ''
    return answer.stdout.strip()


def _remove_previous(folder):
    """A run replaces the one that its folder held."""
    for path in (*folder.glob('events.out.tfevents.*'), folder / 'summary.json'):
        path.unlink(missing_ok=True)


def write_json(path, value):
    """Indented, strict JSON."""
    path.write_text(json.dumps(json.loads(hooks.to_json(value)), indent=2) + '\n', encoding='utf-8')
