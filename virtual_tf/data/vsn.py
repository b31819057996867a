"""`vsn`: vehicles heard by 23 sensors beside a road (Duarte and Hu 2004); a client is a sensor.

50 acoustic and 50 seismic features; class 1 is the assault amphibious vehicle, 0 the dragon wagon. Reads the original
archive, events/runs/<run>/<letter><sensor>/ with two feature files, or else LEAF json.
"""
import io
import re

import numpy as np

from virtual_tf.data import archives, own, prepared
from virtual_tf.data.checks import skip_small
from virtual_tf.data.download import RemoteFile, fetch, folder_of
from virtual_tf.data.example_table import Table, federate
from virtual_tf.data.federated import DataError

FEATURES = 50   # of each of the two files; what follows in a row are targets of another task
SAMPLE_SIZE, SAMPLE_CAVEAT = 1860, '4.3 % sample, standardised per sensor'
# No checksum is published.
FILE = RemoteFile('event.zip', 'https://www.ecs.umass.edu/~mduarte/images/event.zip')
_FEATURE_FILE = re.compile(r'(?:^|/)runs/([^/]+)/[A-Za-z](\d+)/([^/]*feat[^/]*)$', re.IGNORECASE)


def load(data_dir, settings):
    """x: [N, 100] as published."""
    folder = folder_of(data_dir, 'vsn')
    events = next((path for path in (folder / 'events', *sorted(folder.glob('*.zip'))) if path.exists()), None)
    if events is None and own.leaf_files(folder):
        table = prepared.load(data_dir, 'vsn', own.leaf_files(folder), lambda: _read_leaf(folder), form='leaf')
        return skip_small(folder, federate('vsn', table, settings.seed))
    path = events or fetch(data_dir, 'vsn', (FILE,), settings.download)[0]
    files = sorted(path.rglob('*feat*')) if path.is_dir() else [path]
    table = prepared.load(data_dir, 'vsn', files, lambda: read_events(path), form='events')
    return federate('vsn', table, settings.seed)


def read_events(path):
    """The Table of the original archive or its unpacked folder."""
    places = {}
    for name, reader in archives.members(path).items():
        match = _FEATURE_FILE.search(name)
        if match:
            run, sensor, file = match.groups()
            places.setdefault((int(sensor), run), {})[file] = reader
    # The two files of an event differ in their last digit, 1 acoustic and 2 seismic; one alone is half an example.
    pairs = {place: files for place, files in places.items() if len(files) == 2}
    if not pairs:
        raise DataError(f'{path} holds no events/runs/<run>/<sensor>/ with two *feat* files; fetch {FILE.url} again')
    xs, ys, sensors = [], [], []
    for (sensor, run), files in sorted(pairs.items()):
        halves = [_features(files[name](), f'{run}/{name} of {path}') for name in sorted(files)]
        if len(halves[0]) != len(halves[1]):
            raise DataError(f'{path} has {len(halves[0])} acoustic and {len(halves[1])} seismic rows for sensor '
                            f'{sensor} in run {run}; fetch it again')
        xs.append(np.concatenate(halves, axis=1))
        ys.append(np.full(len(halves[0]), 'aav' in run.lower(), np.int32))
        sensors.append(np.full(len(halves[0]), sensor))
    ids, client = np.unique(np.concatenate(sensors), return_inverse=True)
    left = len(places) - len(pairs)
    notes = (f'{left} places of a sensor in a run have not both feature files and were skipped',) if left else ()
    return Table(np.concatenate(xs), np.concatenate(ys), client, tuple(f'sensor {i}' for i in ids), 2, notes=notes)


def _read_leaf(folder):
    table = own.read_leaf(folder)
    return table._replace(caveat=SAMPLE_CAVEAT if len(table.y) == SAMPLE_SIZE else table.caveat)


def _features(content, what):
    try:
        values = np.loadtxt(io.BytesIO(content), dtype=np.float32, ndmin=2)[:, :FEATURES]
    except ValueError as error:
        raise DataError(f'{what} is not a table of numbers ({error}); fetch {FILE.url} again') from error
    if values.shape[1] < FEATURES or not np.isfinite(values).all():
        raise DataError(f'{what} lacks some of its {FEATURES} finite features; fetch {FILE.url} again')
    return values
