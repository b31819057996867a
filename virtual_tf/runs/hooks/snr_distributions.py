"""The SNR of the clients' weights, at the end of a run."""
import numpy as np
import tensorflow as tf

from virtual_tf.runs import event_files, pictures, snr
from virtual_tf.runs.hooks.base import Hook


class SnrDistributions(Hook):
    """snr_cdf.npz, snr_cdf.png and an image in TensorBoard, at the end of a run whose weights are Gaussian."""

    def __init__(self, folder, simulation, state):
        self._folder, self._simulation, self._state = folder, simulation, state

    def on_end(self, summary):
        found = snr.measure(self._simulation, self._state)
        if not found:
            return
        np.savez_compressed(self._folder / snr.FILE, **found)
        picture = self._folder / snr.PICTURE
        pictures.snr_cdfs({self._simulation.settings.variant(): snr.shares(found)}, snr.GRID, picture)
        writer = tf.summary.create_file_writer(str(self._folder))
        with event_files.writing(writer, summary['rounds']):
            tf.summary.image('clients/snr_cdf', tf.io.decode_png(picture.read_bytes())[tf.newaxis])
        with event_files.disk_errors():
            writer.close()
