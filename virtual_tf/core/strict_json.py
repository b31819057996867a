"""JSON that every reader takes: numbers that are not finite become null; files are replaced whole."""
import json
import math

from virtual_tf.core import safe_files


def to_json(value):
    """One line of strict JSON."""
    return json.dumps(finite(value), allow_nan=False)


def finite(value):
    """The value with None for every number that is not finite."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write(path, value):
    """Indented, strict JSON."""
    with safe_files.replacing(path) as file:
        file.write((json.dumps(finite(value), indent=2, allow_nan=False) + '\n').encode())


def read(path):
    return json.loads(path.read_text(encoding='utf-8'))
