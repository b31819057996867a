"""metrics.jsonl, as the run goes on."""
import os

from virtual_tf.core import strict_json
from virtual_tf.runs.hooks.base import Hook


class JsonLines(Hook):
    """metrics.jsonl: one object a round, of which those of `history` are there already."""

    def __init__(self, folder, history=()):
        self._file = folder.open_metrics(history)

    def on_round(self, metrics, simulation, state):
        self._file.write(strict_json.to_json(metrics) + '\n')
        self._file.flush()   # a reader may follow the run

    def flush(self):
        os.fsync(self._file.fileno())

    def close(self):
        self._file.close()
