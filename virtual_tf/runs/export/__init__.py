"""Models in the formats of others; each file loads where this package is not."""
import contextlib
import pathlib

from absl import logging

from virtual_tf.core import safe_files
from virtual_tf.core.errors import VirtualTfError, unknown
from virtual_tf.runs.export import keras_model, saved_model, tflite

# {format: (function (model, path, draws, seed), how a path ends)}
FORMATS = {'savedmodel': (saved_model.write, ''), 'tflite': (tflite.write, '.tflite'),
           'keras': (keras_model.write, '.keras')}


def export(model, path, format='savedmodel', draws=0, seed=0):
    """Writes a Model to a file, or a folder for savedmodel; returns its path. What is there already stays."""
    if format not in FORMATS:
        raise unknown('format', format, FORMATS)
    if draws:
        model.posterior     # noqa: B018  weights that are numbers have none, and say so
    write, suffix = FORMATS[format]
    path = pathlib.Path(path).expanduser()
    path = path if path.name.endswith(suffix) else path.with_name(path.name + suffix)
    if path.exists():
        raise VirtualTfError(f'{path} is there already; remove it, or give another output')
    safe_files.check_writable(path.parent, 'output')
    with _quietly():
        try:
            model.trace()
        except (TypeError, ValueError) as error:
            raise VirtualTfError(f'a layer of model {model.parts.settings.model!r} does not take any number of '
                                 f'examples ({str(error).strip()[:200]}); let it use vt.layers.sizes(x) in place of '
                                 'x.shape') from error
        write(model, path, draws, seed)
    return path


@contextlib.contextmanager
def _quietly():
    """Without the notes of TensorFlow on its temporary files."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)
