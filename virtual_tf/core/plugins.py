"""Python files of a user's own, which register models, methods and metrics when they are run."""
import hashlib
import importlib.util
import pathlib
import sys
import traceback

from virtual_tf.core.errors import VirtualTfError

_loaded = {}     # file → SHA-256 of its contents
_LONGEST = 300   # letters of an error that are repeated


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
    if spec is None:
        raise VirtualTfError(f'plugins: {path} is no Python file; give one whose name ends in .py')
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up by name.
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[path.stem]
        raise VirtualTfError(f'plugins: {told(error, path)}; correct the file, or leave it out') from error
    _loaded[path] = hashlib.sha256(contents).hexdigest()


def load_all(paths):
    """Runs the files of a list with commas."""
    for path in filter(None, paths.split(',')):
        load(path)


def loaded():
    """The files that were run, for a process that is to run them too."""
    return [str(path) for path in _loaded]


def digests():
    """{name of a file: SHA-256}: what was run belongs to what a run is."""
    return {path.name: digest for path, digest in _loaded.items()}


def told(error, path):
    """'FILE, line 7: TypeError: …': where in a user's file an error arose, as far as it did, and how it begins."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    if isinstance(error, SyntaxError) and error.filename == str(path):
        lines = [error.lineno]
    where = f'{path}, line {lines[-1]}: ' if lines and lines[-1] else f'{path}: '
    said = str(error.msg if isinstance(error, SyntaxError) else error).strip().partition('\n')[0][:_LONGEST]
    if isinstance(error, VirtualTfError):
        return where + said
    return f'{where}{type(error).__name__}{": " if said else ""}{said}'
