"""What a run over workers on Ray gains and costs: times of rounds, what travels, and the driver's memory.

    python -m scripts.bench_ray --output=results/bench_ray.json

Rounds of LSTM and conv at the sizes of scripts.bench: one worker of one core, two workers of one core each, and one
process with two threads, each in a process of its own, several times in turn; whole rounds, with their evaluation.
Then C clients a round of K with an MLP on two workers: bytes and seconds of a round, and the driver's peak memory.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from absl import flags

from virtual_tf.core import random_streams, strict_json
from virtual_tf.data.federated import FederatedDataset, Split
from virtual_tf.methods.registry import make_settings
from virtual_tf.runs import driver, engines

from . import bench_rows, bench_scale, entry

MODELS = {'lstm': 5, 'conv': 3}     # epochs of a round
ENGINES = {'one worker': ('ray', 1, 1), 'two workers': ('ray', 2, 1), 'two threads': ('local', 0, 2)}
COHORTS = ((10, 100), (10, 10_000), (100, 10_000), (1_000, 10_000))     # C of K
TURNS, WARM_UP, MEASURED = 3, 2, 5
EXAMPLES, TEST_EXAMPLES, FEATURES, CLASSES = 10, 2, 100, 10
COMMON = {'method': 'virtual', 'private': 'none', 'checkpoint_every': 0, 'histogram_every': 0}


def define_flags():
    flags.DEFINE_string('part', None, 'only this part, as json: the arguments of a function here, and its name as what')
    flags.DEFINE_string('output', None, 'json file to write')


def play(settings, dataset, name, workers, cores):
    """Metrics of the rounds after the warm-up."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        with engines.opened(name, folder, workers=workers, cores=cores) as make:
            simulation = driver.build(settings, dataset, make)
            state = simulation.start(folder / 'clients')
            return list(simulation.run(state))[WARM_UP:]


def rounds(model, engine):
    """Seconds of each round."""
    name, workers, cores = ENGINES[engine]
    settings = make_settings(COMMON | {
        'dataset': 'bench', 'model': model, 'epochs': MODELS[model], 'batch_size': bench_rows.SIZES[model][1],
        'clients_per_round': bench_rows.CLIENTS, 'threads': cores, 'rounds': WARM_UP + MEASURED})
    history = play(settings, bench_rows.make_dataset(model), name, workers, cores)
    return [row['seconds'] for row in history]


def make_dataset(clients):
    """Random features of small clients: what travels does not depend on them."""
    generator = random_streams.make_generator(0)

    def split(size):
        return Split(generator.standard_normal((clients * size, FEATURES), np.float32),
                     generator.integers(0, CLASSES, clients * size, np.int32), np.arange(0, clients * size + 1, size))
    return FederatedDataset('bench', tuple(map(str, range(clients))), split(EXAMPLES), split(TEST_EXAMPLES), CLASSES)


def cohort(selected, clients):
    """Medians over rounds of two workers, and the driver's peak memory."""
    settings = make_settings(COMMON | {
        'dataset': 'bench', 'epochs': 5, 'batch_size': 10, 'clients_per_round': selected,
        'rounds': WARM_UP + MEASURED})
    history = play(settings, make_dataset(clients), 'ray', 2, 1)
    found = {key: float(np.median([row[key] for row in history])) for key in (
        'seconds', 'seconds_evaluation', 'seconds_waiting', 'seconds_transport', 'bytes_moved')}
    return {'selected': selected, 'clients': clients, **found, 'driver_peak_mb': bench_scale.peak_mb()}


def _in_process(**part):
    answer = subprocess.run([sys.executable, '-m', f'{__package__}.bench_ray', f'--part={json.dumps(part)}'],
                            stdout=subprocess.PIPE, check=True)
    return json.loads(answer.stdout.splitlines()[-1])


def measure():
    """Everything, for the json file."""
    seconds = {model: {engine: [] for engine in ENGINES} for model in MODELS}
    for model, of_engines in seconds.items():
        for _ in range(TURNS):     # in turn: whatever slows the machine slows all alike
            for engine, times in of_engines.items():
                times.append(_in_process(what='rounds', model=model, engine=engine))
    cohorts = [_in_process(what='cohort', selected=selected, clients=clients) for selected, clients in COHORTS]
    return {'seconds': seconds, 'cohorts': cohorts}


def show(found):
    """Lines of what was measured."""
    yield f'{"":8}{"one worker, s":>15}{"two workers, s":>16}{"two threads, s":>16}{"two/one":>9}{"two/threads":>13}'
    for model, of_engines in found['seconds'].items():
        one, two, threads = (float(np.median(of_engines[engine])) for engine in ENGINES)
        yield f'{model:8}{one:15.3f}{two:16.3f}{threads:16.3f}{two / one:9.2f}{two / threads:13.2f}'
    yield ''
    yield (f'{"C":>6}{"of K":>8}{"round, s":>10}{"evaluation, s":>15}{"waiting, s":>12}{"transport, s":>14}'
           f'{"MB moved":>10}{"driver, peak MB":>17}')
    for row in found['cohorts']:
        yield (f'{row["selected"]:6,}{row["clients"]:8,}{row["seconds"]:10.3f}{row["seconds_evaluation"]:15.3f}'
               f'{row["seconds_waiting"]:12.3f}{row["seconds_transport"]:14.4f}{row["bytes_moved"] / 1e6:10.2f}'
               f'{row["driver_peak_mb"]:17,.0f}')


def main(_):
    values = flags.FLAGS
    if values.part:
        part = json.loads(values.part)
        print(json.dumps({'rounds': rounds, 'cohort': cohort}[part.pop('what')](**part)))
        return
    found = measure()
    print('\n'.join(show(found)))
    if values.output:
        strict_json.write(pathlib.Path(values.output), found)


if __name__ == '__main__':
    entry.run(main, define_flags)
