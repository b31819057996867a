"""What happens beside the rounds: JSON lines, TensorBoard, the progress bar. A hook is told of every round."""
import dataclasses
import itertools
import json
import math
import os

import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tqdm import tqdm

from virtual_tf.core import safe_files
from virtual_tf.methods.virtual import gaussian
from virtual_tf.networks import layers
from virtual_tf.runs import event_files
from virtual_tf.core.errors import VirtualTfError

_SHOWN = {'S': 'server/accuracy', 'MT': 'mt/accuracy', 'loss': 'train/loss'}
# TensorBoard's HParams page opens with five settings, and puts those in front of which it is told that they differ.
_FIRST = ('client_lr', 'kl_weight', 'method', 'private', 'server_lr')


class Hook:
    """Does nothing; a hook overrides what it needs."""

    def on_round(self, metrics, simulation, state):
        """After each round, with the state as it then is."""

    def flush(self):
        """Before each checkpoint: what was told so far must survive the process."""

    def on_end(self, summary):
        """After the last round."""

    def close(self):
        """Always, also after an error."""


class JsonLines(Hook):
    """metrics.jsonl: one object a round, of which those of `history` are there already."""

    def __init__(self, path, history=()):
        with safe_files.replacing(path) as file:
            file.writelines(f'{to_json(metrics)}\n'.encode() for metrics in history)
        self._file = open(path, 'a', encoding='utf-8')

    def on_round(self, metrics, simulation, state):
        self._file.write(to_json(metrics) + '\n')
        self._file.flush()   # a reader may follow the run

    def flush(self):
        os.fsync(self._file.fileno())

    def close(self):
        self._file.close()


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


class TensorBoard(Hook):
    """The scalars of metrics.jsonl, histograms of server and clients, and the HParams dashboard.

    Of an earlier part of the run, events of the rounds in `history` stay, and all else goes.
    """

    def __init__(self, folder, settings, history=()):
        logged = event_files.trim(folder, len(history))
        self._writer = tf.summary.create_file_writer(str(folder))
        self._settings = settings
        with event_files.writing(self._writer, 0):
            tf.summary.experimental.write_raw_pb(_dashboard(settings).SerializeToString())
            hparams.hparams(_hparams(settings))
        for metrics in history:
            if metrics['round'] not in logged:
                self._scalars(metrics)

    def on_round(self, metrics, simulation, state):
        every, number = self._settings.histogram_every, metrics['round']
        self._scalars(metrics)
        with event_files.writing(self._writer, number):
            if every and number % every == 0:
                models = {'server': simulation.algorithm.server_model(state.server)}
                # Clients that are elsewhere keep their states to themselves.
                if ids := [i for i in simulation.cohort_ids(number) if i in state.clients]:
                    models['clients'] = simulation.algorithm.client_models(state.clients.read(ids))
                for owner, weights in models.items():
                    for path in ('shared', 'private'):
                        for name, weight in getattr(weights, path).items():
                            _histograms(f'{owner}_{path}/{name}', weight)

    def _scalars(self, metrics):
        with event_files.writing(self._writer, metrics['round']):
            for key, value in metrics.items():
                if key != 'round':
                    tf.summary.scalar(key, value)

    def flush(self):
        with event_files.writing(self._writer, 0):
            self._writer.flush()

    def on_end(self, summary):
        with event_files.writing(self._writer, summary['rounds']):
            for protocol in ('max', 'final'):
                for key, value in summary[protocol].items():
                    tf.summary.scalar(f'{protocol}/{key}', value)

    def close(self):
        with event_files.disk_errors():
            self._writer.close()


def read_history(path, rounds):
    """The metrics of rounds 1 to `rounds` from metrics.jsonl; what follows them, also half a line, is not looked at."""
    try:
        with open(path, encoding='utf-8') as file:
            history = [json.loads(line) for line in itertools.islice(file, rounds)]
    except (FileNotFoundError, ValueError):   # also of JSON and of UTF-8
        history = []
    if [metrics.get('round') for metrics in history] != list(range(1, rounds + 1)):
        raise VirtualTfError(f'{path} has not the rounds 1 to {rounds} that the checkpoint stands for; --noresume '
                             'starts the run anew')
    return [{key: math.nan if value is None else value for key, value in metrics.items()} for metrics in history]


def to_json(value):
    """One line of strict JSON; numbers that are not finite become null."""
    return json.dumps(finite(value), allow_nan=False)


def finite(value):
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _dashboard(settings):
    """What TensorBoard's HParams page shows, the settings of _FIRST before the others."""
    summary = hparams.hparams_config_pb(
        hparams=[hparams.HParam(name) for name in _hparams(settings)],
        metrics=[hparams.Metric(f'{protocol}/{model}/{metric}') for protocol in ('max', 'final')
                 for model in ('server', 'mt') for metric in ('accuracy', 'cross_entropy')])
    value, = summary.value
    page = HParamsPluginData.FromString(value.metadata.plugin_data.content)
    for info in page.experiment.hparam_infos:
        info.differs = info.name in _FIRST
    value.metadata.plugin_data.content = page.SerializeToString()
    return summary


def _hparams(settings):
    return {name: value for name, value in dataclasses.asdict(settings).items() if value is not None}


def _histograms(name, weight):
    if not layers.is_gaussian(weight):
        tf.summary.histogram(f'{name}/weight', weight)
        return
    tf.summary.histogram(f'{name}/mean', weight.loc)
    tf.summary.histogram(f'{name}/log10_precision', -2.0 * tf.math.log(weight.scale) / math.log(10.0))
    # An exact zero mean has no logarithm; it stands at the left end.
    snr = tf.maximum(gaussian.signal_to_noise(weight), 1e-10)
    tf.summary.histogram(f'{name}/log10_snr', tf.math.log(snr) / math.log(10.0))
