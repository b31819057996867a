"""What the number of clients costs in time, memory and checkpoints, and whether memory grows with the rounds.

    python -m scripts.bench_scale
    python -m scripts.bench --scale --output=results/bench.json

The MLP with the private path on clients of 100 examples with 100 features, C = 10, all visited before; the store is
what store=auto chooses. The populations are made once, on disk. A process that times rounds plays one at each K in
turn, in every order, through the same compiled function: whatever slows the machine slows all K alike, and ratios are
of neighbours in time. Several such processes show how far that holds. Memory is measured in processes of their own.
The files were just written or read, so they come from the page cache as far as that holds 5 GB.
"""
import itertools
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
from absl import flags

from virtual_tf.core import random_streams
from virtual_tf.data.federated import FederatedDataset, Split
from virtual_tf.methods.registry import make_settings
from virtual_tf.runs import driver
from virtual_tf.runs.hooks import Hook
from virtual_tf.simulator import checkpoints, rounds

from . import entry

EXAMPLES, TEST_EXAMPLES, FEATURES, CLASSES = 100, 10, 100, 10
CLIENTS = (100, 1_000, 10_000)
PROCESSES, WARM_UP, MEASURED = 5, 3, 18      # rounds at each K in each process; 6 orders
CHUNK, CHECKPOINT_EVERY = 100, 10
GROWTH_CLIENTS, GROWTH_FROM, GROWTH_TO = 100, 20, 300


def make_dataset(clients):
    """Random features; neither speed nor memory depends on what they show."""
    generator = random_streams.make_generator(0)

    def split(size):
        x = generator.standard_normal((clients * size, FEATURES), np.float32)
        y = generator.integers(0, CLASSES, clients * size, np.int32)
        return Split(x, y, np.arange(0, clients * size + 1, size))
    return FederatedDataset('scale', tuple(map(str, range(clients))), split(EXAMPLES), split(TEST_EXAMPLES), CLASSES)


def settings_of(rounds, epochs):
    return make_settings({'dataset': 'scale', 'private': 'residual', 'rounds': rounds, 'epochs': epochs,
                          'clients_per_round': 10, 'checkpoint_every': CHECKPOINT_EVERY})


def make_simulations(counts):
    """{K: Simulation}, all with one compiled algorithm."""
    first = driver.build(settings_of(WARM_UP + MEASURED, 20), make_dataset(counts[0]))
    return {clients: rounds.Simulation(first.network, first.algorithm, make_dataset(clients), first.settings)
            for clients in counts}


def fill(folder):
    """Populations in which every client has a state, with a checkpoint of each."""
    for clients, simulation in make_simulations(CLIENTS).items():
        points = checkpoints.Checkpoints(folder / str(clients))
        state = simulation.start(points.clients_folder)
        for ids in _chunks(clients):
            state.clients.write(ids, state.clients.read(ids))
        points.save(state, {})


def open_filled(folder, clients, simulation):
    """(Checkpoints, RunState) of a population; every client is read once, so that no round is a first time."""
    points = checkpoints.Checkpoints(folder / str(clients))
    state = simulation.start(points.clients_folder)
    points.restore(state, points.newest())
    for ids in _chunks(clients):
        state.clients.read(ids)
    return points, state


def _chunks(clients):
    return [range(first, min(first + CHUNK, clients)) for first in range(0, clients, CHUNK)]


def time_rounds(folder):
    """{K: seconds of each round without its evaluation}, one round at each K in turn."""
    simulations = make_simulations(CLIENTS)
    states = {clients: open_filled(folder, clients, simulation)[1] for clients, simulation in simulations.items()}
    seconds = {clients: [] for clients in CLIENTS}
    orders = itertools.cycle(itertools.permutations(CLIENTS))
    for order in itertools.islice(orders, WARM_UP + MEASURED):
        for clients in order:
            row = simulations[clients].play_round(states[clients])
            seconds[clients].append(row['seconds'] - row['seconds_evaluation'])
    return {clients: values[WARM_UP:] for clients, values in seconds.items()}


def measure_memory(folder, clients):
    """Peak memory of a process at one K, and the cost of a checkpoint after as many rounds as lie between two."""
    simulation = make_simulations([clients])[clients]
    points, state = open_filled(folder, clients, simulation)
    for _ in range(CHECKPOINT_EVERY):
        simulation.play_round(state)
    before, started = folder_bytes(folder / str(clients)), time.perf_counter()
    points.save(state, {})
    saved, after = time.perf_counter() - started, folder_bytes(folder / str(clients))
    return {'peak_mb': peak_mb(), 'checkpoint_seconds': saved, 'checkpoint_mb': (after - before) / 1e6,
            'folder_mb': after / 1e6}


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
    driver.run(settings_of(GROWTH_TO, 2), make_dataset(GROWTH_CLIENTS), folder / 'growth', False,
                    more_hooks=[memory])
    return {'clients': GROWTH_CLIENTS, 'from_round': GROWTH_FROM, 'to_round': GROWTH_TO,
            'from_mb': memory.megabytes[GROWTH_FROM - 1], 'to_mb': memory.megabytes[-1],
            'largest_growth_mb': max(memory.megabytes[GROWTH_FROM:]) - memory.megabytes[GROWTH_FROM - 1],
            'every_20_rounds_mb': memory.megabytes[19::20]}


def peak_mb():
    # Not ru_maxrss: a process inherits that of the one that started it.
    lines = pathlib.Path('/proc/self/status').read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith('VmHWM:')) * 1024 / 1e6


def folder_bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob('*') if path.is_file())


def compare(processes):
    """Rows and ratios to the smallest K, from what time_rounds gave in each process.

    A ratio is the median over pairs of rounds that were played one after the other.
    """
    seconds = {clients: np.array([process[clients] for process in processes]) for clients in CLIENTS}
    rows = []
    for clients, values in seconds.items():
        ratios = values / seconds[CLIENTS[0]]
        quarter, median, three_quarters = np.percentile(values, [25, 50, 75])
        rows.append({'clients': clients, 'round_seconds': median, 'quartiles': [quarter, three_quarters],
                     'fastest': values.min(), 'slowest': values.max(), 'ratio': np.median(ratios),
                     'ratio_quartiles': np.percentile(ratios, [25, 75]).tolist(),
                     'ratio_by_process': np.median(ratios, axis=1).tolist()})
    return rows


def scale_table():
    """Measures, prints and returns everything for the json file."""
    with tempfile.TemporaryDirectory() as folder:
        _in_process(folder, 'fill')
        processes = [_in_process(folder, 'rounds') for _ in range(PROCESSES)]
        rows = compare([{int(clients): values for clients, values in process.items()} for process in processes])
        for row in rows:
            row |= _in_process(folder, 'memory', row['clients'])
        growth = _in_process(folder, 'growth')
    print(f'{"clients":>8}{"round, s":>10}{"quartiles":>15}{"ratio":>7}{"by process":>12}{"peak memory, MB":>17}'
          f'{"checkpoint, s":>15}{"new MB":>8}{"on disk, MB":>13}')
    for row in rows:
        print(f'{row["clients"]:8,}{row["round_seconds"]:10.3f}{_span(row["quartiles"], 3):>15}{row["ratio"]:7.2f}'
              f'{_span(row["ratio_by_process"], 2):>12}{row["peak_mb"]:17,.0f}{row["checkpoint_seconds"]:15.2f}'
              f'{row["checkpoint_mb"]:8.1f}{row["folder_mb"]:13,.0f}')
    print(f'a round at {CLIENTS[-1]:,} clients takes {rows[-1]["ratio"]:.2f} times that at {CLIENTS[0]:,} (without '
          f'evaluation; median of {PROCESSES * MEASURED} pairs, quartiles {_span(rows[-1]["ratio_quartiles"], 2)})')
    print(f'{GROWTH_TO} rounds at {GROWTH_CLIENTS} clients: {growth["from_mb"]:,.0f} MB after round {GROWTH_FROM}, '
          f'{growth["largest_growth_mb"]:+.1f} MB at most until round {GROWTH_TO}')
    return {'rounds': rows, 'growth': growth, 'seconds': processes}


def _span(values, digits):
    return f'{min(values):.{digits}f}–{max(values):.{digits}f}'


def _in_process(folder, part, clients=0):
    answer = subprocess.run([sys.executable, '-m', f'{__package__}.bench_scale', f'--folder={folder}', f'--part={part}',
                             f'--clients={clients}'], stdout=subprocess.PIPE, check=True)
    return json.loads(answer.stdout)


def main(_):
    values = flags.FLAGS
    if values.part is None:
        scale_table()
        return
    folder = pathlib.Path(values.folder)
    parts = {'fill': fill, 'rounds': time_rounds, 'growth': measure_growth,
             'memory': lambda folder: measure_memory(folder, values.clients)}
    print(json.dumps(parts[values.part](folder)))


if __name__ == '__main__':
    flags.DEFINE_enum('part', None, ['fill', 'rounds', 'memory', 'growth'], 'only this part, as json; else all')
    flags.DEFINE_string('folder', None, 'where the populations of the parts are')
    flags.DEFINE_integer('clients', 0, 'population of --part=memory')
    entry.run(main)
