"""Python files of a user's own, which register models, methods and metrics when they are run."""
import hashlib
import importlib.util
import pathlib
import sys

from virtual_tf.core.errors import VirtualTfError

_loaded = {}     # file → SHA-256 of its contents


def load(path):
    """Runs a file, once."""
    path = pathlib.Path(path).expanduser().resolve()
    if path in _loaded:
        return
    if not path.is_file():
        raise VirtualTfError(f'plugins: there is no file {path}; give the path of a Python file that registers a '
                             'model, a method or a metric')
    contents = path.read_bytes()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up by name.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    _loaded[path] = hashlib.sha256(contents).hexdigest()


def load_all(paths):
    """Runs the files of a list with commas."""
    for path in filter(None, paths.split(',')):
        load(path)


def digests():
    """{name of a file: SHA-256}: what was run belongs to what a run is."""
    return {path.name: digest for path, digest in _loaded.items()}
