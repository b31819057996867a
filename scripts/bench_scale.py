"""What the number of clients costs in time, memory and checkpoints, and whether memory grows with the rounds.

    python -m scripts.bench_scale
    python -m scripts.bench --scale --output=results/bench.json

The MLP with the private path on clients of 100 examples with 100 features, C = 10, all visited before. Each line is a
process of its own, so that its memory is its own.
"""
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from absl import flags

from scripts import entry
from virtual_tf import checkpoint, running, streams
from virtual_tf.data.federated import FederatedDataset, Split
from virtual_tf.hooks import Hook
from virtual_tf.settings import make_settings

EXAMPLES, TEST_EXAMPLES, FEATURES, CLASSES = 100, 10, 100, 10
CLIENTS = (100, 1_000, 10_000)
WARM_UP, MEASURED, FILL = 3, 15, 100
GROWTH_CLIENTS, GROWTH_FROM, GROWTH_TO = 100, 20, 300


def make_dataset(clients):
    """Random features; neither speed nor memory depends on what they show."""
    generator = streams.make_generator(0)

    def split(size):
        x = generator.standard_normal((clients * size, FEATURES), np.float32)
        y = generator.integers(0, CLASSES, clients * size, np.int32)
        return Split(x, y, np.arange(0, clients * size + 1, size))
    return FederatedDataset('scale', tuple(map(str, range(clients))), split(EXAMPLES), split(TEST_EXAMPLES), CLASSES)


def settings_of(rounds, epochs):
    return make_settings({'dataset': 'scale', 'private': 'residual', 'rounds': rounds, 'epochs': epochs,
                          'clients_per_round': 10, 'checkpoint_every': 10})


def measure_round(clients, folder):
    """Medians over rounds at one K, with every client's state in the store from the start."""
    simulation = running.build(settings_of(WARM_UP + MEASURED, 20), make_dataset(clients))
    points = checkpoint.Checkpoints(pathlib.Path(folder))
    state = simulation.start(points.clients_folder)
    for first in range(0, clients, FILL):
        ids = range(first, min(first + FILL, clients))
        state.clients.write(ids, state.clients.read(ids))
    points.save(state, {})
    rounds = [row['seconds'] - row['seconds_evaluation'] for row in simulation.run(state)][WARM_UP:]
    before = folder_bytes(folder)
    started = time.perf_counter()
    points.save(state, {})
    saved = time.perf_counter() - started
    return {'clients': clients, 'round_seconds': statistics.median(rounds), 'fastest': min(rounds),
            'slowest': max(rounds), 'peak_mb': peak_mb(), 'checkpoint_seconds': saved,
            'checkpoint_mb': (folder_bytes(folder) - before) / 1e6, 'folder_mb': folder_bytes(folder) / 1e6}


class Memory(Hook):
    """Resident memory after each round."""

    def __init__(self):
        self.megabytes = []

    def on_round(self, metrics, simulation, state):
        pages = int(pathlib.Path('/proc/self/statm').read_text().split()[1])
        self.megabytes.append(pages * resource.getpagesize() / 1e6)


def measure_growth(folder):
    """Resident memory over a whole run with its logs and checkpoints."""
    memory = Memory()
    running.run(settings_of(GROWTH_TO, 2), make_dataset(GROWTH_CLIENTS), folder, False, more_hooks=[memory])
    return {'clients': GROWTH_CLIENTS, 'from_round': GROWTH_FROM, 'to_round': GROWTH_TO,
            'from_mb': memory.megabytes[GROWTH_FROM - 1], 'to_mb': memory.megabytes[-1],
            'largest_growth_mb': max(memory.megabytes[GROWTH_FROM:]) - memory.megabytes[GROWTH_FROM - 1],
            'every_20_rounds_mb': memory.megabytes[19::20]}


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def folder_bytes(folder):
    return sum(path.stat().st_size for path in pathlib.Path(folder).rglob('*') if path.is_file())


def scale_table():
    """All lines, each measured in a process of its own; prints them and returns them for the json file."""
    print(f'{"clients":>8}{"round, s":>10}{"min":>8}{"max":>8}{"peak memory, MB":>17}{"checkpoint, s":>15}{"new MB":>8}'
          f'{"on disk, MB":>13}')
    rows = []
    for clients in CLIENTS:
        rows.append(row := _in_process(f'--clients={clients}'))
        print(f'{clients:8,}{row["round_seconds"]:10.3f}{row["fastest"]:8.3f}{row["slowest"]:8.3f}{row["peak_mb"]:17,.0f}'
              f'{row["checkpoint_seconds"]:15.2f}{row["checkpoint_mb"]:8.1f}{row["folder_mb"]:13,.0f}')
    ratio = rows[-1]['round_seconds'] / rows[0]['round_seconds']
    print(f'a round at {CLIENTS[-1]:,} clients takes {ratio:.2f} times that at {CLIENTS[0]:,} (without evaluation)')
    growth = _in_process('--clients=0')
    print(f'{GROWTH_TO} rounds at {GROWTH_CLIENTS} clients: {growth["from_mb"]:,.0f} MB after round {GROWTH_FROM}, '
          f'{growth["largest_growth_mb"]:+.1f} MB at most until round {GROWTH_TO}')
    return {'rounds': rows, 'ratio': ratio, 'growth': growth}


def _in_process(argument):
    answer = subprocess.run([sys.executable, '-m', 'scripts.bench_scale', argument], stdout=subprocess.PIPE, check=True)
    return json.loads(answer.stdout)


def main(_):
    clients = flags.FLAGS.clients
    if clients is None:
        scale_table()
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure_round(clients, folder) if clients else measure_growth(folder)))


if __name__ == '__main__':
    flags.DEFINE_integer('clients', None, 'only the line of so many clients, as json; 0 for the growth', lower_bound=0)
    entry.run(main)
