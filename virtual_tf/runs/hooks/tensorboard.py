"""TensorBoard: scalars, histograms and the HParams dashboard."""
import math

import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from virtual_tf.methods.virtual import gaussian
from virtual_tf.networks import layers
from virtual_tf.runs import event_files
from virtual_tf.runs.hooks.base import Hook
from virtual_tf.simulator.evaluation import ways_to_predict
from virtual_tf.simulator.metrics import best_of

# The HParams page opens with five settings, and puts those in front of which it is told that they differ.
_FIRST = ('client_lr', 'kl_weight', 'method', 'private', 'server_lr')
_PROTOCOLS = ('max', 'last_5', 'final')
_MOST_CLIENTS = 100     # of a round in its histograms, however many trained: their states are in memory


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
            hparams.hparams(settings.to_dict())
        for metrics in history:
            if metrics['round'] not in logged and 'gap' not in metrics:
                self._scalars(metrics)

    def on_round(self, metrics, simulation, state):
        every, number = self._settings.histogram_every, metrics['round']
        self._scalars(metrics)
        with event_files.writing(self._writer, number):
            if every and (number % every == 0 or number == self._settings.rounds):
                of_server = simulation.algorithm.server_model
                models = {'server': of_server(state.server)} if of_server else {}
                # Clients that are elsewhere keep their states to themselves.
                if ids := [i for i in simulation.cohort_ids(number) if i in state.clients][:_MOST_CLIENTS]:
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
            for protocol in _PROTOCOLS:
                for key, value in summary[protocol].items():
                    tf.summary.scalar(f'{protocol}/{key}', value)
        for epochs, ways in summary.get('unseen', {}).items():
            with event_files.writing(self._writer, int(epochs)):
                for way, values in ways.items():
                    for name, value in values.items():
                        tf.summary.scalar(f'unseen/{way}/{name}', value)

    def close(self):
        with event_files.disk_errors():
            self._writer.close()


def _dashboard(settings):
    """What TensorBoard's HParams page shows, the settings of _FIRST before the others."""
    summary = hparams.hparams_config_pb(
        hparams=[hparams.HParam(name) for name in settings.to_dict()],
        metrics=[hparams.Metric(f'{protocol}/{model}{way}/{metric}') for protocol in _PROTOCOLS
                 for way in ways_to_predict(settings) for model in ('server', 'mt') for metric in best_of()])
    value, = summary.value
    page = HParamsPluginData.FromString(value.metadata.plugin_data.content)
    for info in page.experiment.hparam_infos:
        info.differs = info.name in _FIRST
    value.metadata.plugin_data.content = page.SerializeToString()
    return summary


def _histograms(name, weight):
    if not layers.is_gaussian(weight):
        tf.summary.histogram(f'{name}/weight', weight)
        return
    tf.summary.histogram(f'{name}/mean', weight.loc)
    tf.summary.histogram(f'{name}/log10_precision', -2.0 * tf.math.log(weight.scale) / math.log(10.0))
    # An exact zero mean has no logarithm; it stands at the left end.
    snr = tf.maximum(gaussian.signal_to_noise(weight), 1e-10)
    tf.summary.histogram(f'{name}/log10_snr', tf.math.log(snr) / math.log(10.0))
