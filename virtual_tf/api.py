"""The functions of the front door that are nowhere else as a user wants to call them."""
import pathlib

from virtual_tf import data
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import Settings
from virtual_tf.data.download import DATA_DIR
from virtual_tf.methods import registry
from virtual_tf.runs.folder import RunFolder


def make_settings(**given):
    """Settings of a run; what is not given has the default of method, data, model and preset."""
    return registry.make_settings(given)


def load_data(settings, data_dir=DATA_DIR):
    """The FederatedDataset of settings.dataset; raw files are below data_dir, or are downloaded to it."""
    if not isinstance(settings, Settings):
        raise VirtualTfError(f'load_data takes settings, got {settings!r:.50}; make_settings(dataset=…) makes them')
    return data.load(data_dir, settings)


def read_run(folder):
    """A finished run: .settings, .metrics {name: values by round}, .data, .seed, .rounds."""
    return RunFolder(pathlib.Path(folder).expanduser()).read()
