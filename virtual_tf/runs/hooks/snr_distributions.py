"""The SNR of the clients' weights, at the end of a run."""
import numpy as np

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
        event_files.add_picture(self._folder, 'clients/snr_cdf', picture, summary['rounds'])
