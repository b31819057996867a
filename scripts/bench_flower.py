"""What a federation on real processes costs: bytes at the SuperLink's door, and where a round's seconds go.

    python -m scripts.bench_flower --data_dir=DATA --output=results/flower.json

Plays the same few rounds with scripts/deploy_local.sh and in the simulator, all clients in every round: VIRTUAL with
whole deltas, with 75 % pruned, with secure aggregation, and FedAvg. As many clients as there are cores, so that none
waits for another's.
"""
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

from absl import flags

from virtual_tf import data
from virtual_tf.core import safe_files, strict_json
from virtual_tf.core.errors import RunError
from virtual_tf.data.download import DATA_DIR
from virtual_tf.methods.registry import make_settings
from virtual_tf.report import text_tables
from virtual_tf.runs import driver, provenance
from virtual_tf.runs.folder import RunFolder

from . import entry

ROOT = pathlib.Path(__file__).parent.parent
VIRTUAL = {'method': 'virtual', 'private': 'none'}
CASES = {'VIRTUAL': VIRTUAL, 'VIRTUAL, 75 % pruned': VIRTUAL | {'prune': 75},
         'VIRTUAL, secure aggregation': VIRTUAL | {'secure': True},
         'FedAvg': {'method': 'fedavg', 'server_lr': 1.0}}
PARTS = {'seconds_import': 'libraries and data', 'compile': 'compiling', 'train': 'training',
         'test': 'tracing, testing, keeping state', 'server': 'server: S, aggregation, files',
         'flower': 'Flower: start of a process, transport, waiting'}

_DATASET = flags.DEFINE_string('dataset', 'writers', 'data set whose first clients take part')
_DATA_DIR = flags.DEFINE_string('data_dir', DATA_DIR, 'folder of the data sets')
_CLIENTS = flags.DEFINE_integer('clients', os.cpu_count(), 'SuperNodes', lower_bound=1)
_SECURE_CLIENTS = flags.DEFINE_integer('secure_clients', 3, 'SuperNodes with secure aggregation', lower_bound=3)
_ROUNDS = flags.DEFINE_integer('rounds', 3, 'rounds of each run', lower_bound=2)
_COMPILE = flags.DEFINE_string('compile', 'auto', 'compiler of the client loop')
_OUTPUT = flags.DEFINE_string('output', None, 'json file to write')


def given(case, clients):
    """Run configuration of a case, without what only a deployment knows."""
    return {'dataset': _DATASET.value, 'rounds': _ROUNDS.value, 'histogram_every': 0, 'compile': _COMPILE.value,
            'clients_per_round': clients} | {key: value for key, value in CASES[case].items() if key != 'secure'}


def deploy(case, clients, folder):
    """(metrics of each round, bytes in all {up, down}) of processes on loopback."""
    config = given(case, clients) | {'data_dir': str(pathlib.Path(_DATA_DIR.value).expanduser().resolve())}
    config |= {'secure': 'true'} if CASES[case].get('secure') else {}
    done = subprocess.run(['bash', ROOT / 'scripts' / 'deploy_local.sh', '-n', str(clients), '-o', folder, '-w',
                           *(f'{key}={value}' for key, value in config.items())],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RunError(f'{case}: scripts/deploy_local.sh ended with code {done.returncode}: {done.stdout[-500:]}')
    return RunFolder(folder).history(), json.loads((folder / 'logs' / 'wire.json').read_text())


def simulate(case, clients):
    """(metrics of each round, seconds of one warm client_update of a single client) in the simulator."""
    settings = make_settings(given(case, clients))
    dataset = data.load(_DATA_DIR.value, settings).part(range(clients))
    simulation = driver.build(settings, dataset)
    state = simulation.start()
    rows = list(simulation.run(state))
    alone = dataset.part([0])
    states, cohort = state.clients.read([0]), alone.cohort([0], 1, simulation.settings)
    times = []
    for _ in range(4):
        started = time.perf_counter()
        simulation.algorithm.client_update(state.server, states, cohort)[2].loss.numpy()
        times.append(time.perf_counter() - started)
    return rows, statistics.median(times[1:])     # the first one compiles


def parts(rows, warm):
    """Seconds of a round by part, medians over rounds but the first; clients work side by side, so theirs is a mean."""
    def median(name):
        return statistics.median(row.get(name, float('nan')) for row in rows[1:])
    client = median('seconds_import') + median('seconds_client')
    return {'seconds_import': median('seconds_import'), 'compile': median('seconds_train') - warm, 'train': warm,
            'test': median('seconds_client') - median('seconds_train'),
            'server': median('seconds_evaluation'),
            'flower': median('seconds') - client - median('seconds_evaluation')}


def measure(case, folder):
    clients = _SECURE_CLIENTS.value if CASES[case].get('secure') else _CLIENTS.value
    rows, wire = deploy(case, clients, folder)
    simulated, warm = simulate(case, clients)
    messages = clients * len(rows)
    return {'clients': clients, 'payload up': sum(row['bytes_up'] for row in rows) / messages,
            'payload down': sum(row['bytes_down'] for row in rows) / messages,
            'wire up': wire['up'] / messages, 'wire down': wire['down'] / messages,
            'S': rows[-1]['server/accuracy'], 'S of the simulator': simulated[-1]['server/accuracy'],
            'cross-entropy of S': rows[-1]['server/cross_entropy'],
            'cross-entropy of S, simulator': simulated[-1]['server/cross_entropy'],
            'clipped values': sum(row.get('clipped_values', 0) for row in rows),
            'largest delta': max(row.get('largest_delta', 0.0) for row in rows),
            'seconds': statistics.median(row['seconds'] for row in rows[1:]),
            'seconds of the simulator': statistics.median(row['seconds'] for row in simulated[1:]),
            'parts': parts(rows, warm)}


def main(_):
    output = pathlib.Path(_OUTPUT.value).expanduser() if _OUTPUT.value else None
    if output:
        safe_files.check_writable(output.parent, 'output')
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for i, case in enumerate(CASES):
            found[case] = measure(case, pathlib.Path(folder, str(i)))
            print(f'{case}: {json.dumps(found[case])}', flush=True)
    dense = found['VIRTUAL']
    print('\n' + text_tables.markdown(
        ('kB a client and round', 'delta', 'all bytes up', 'all bytes down', 'up against VIRTUAL', 'S', 'simulator'),
        [(case, *(f'{row[key] / 1000:,.1f}' for key in ('payload up', 'wire up', 'wire down')),
          f'{row["wire up"] / dense["wire up"]:.2f}', f'{100 * row["S"]:.2f}', f'{100 * row["S of the simulator"]:.2f}')
         for case, row in found.items()]))
    print(text_tables.markdown(
        ('seconds a round', *CASES),
        [(label, *(f'{row["parts"][part]:.2f}' for row in found.values())) for part, label in PARTS.items()]
        + [('all of it', *(f'{row["seconds"]:.2f}' for row in found.values())),
           ('the simulator', *(f'{row["seconds of the simulator"]:.2f}' for row in found.values()))]))
    if output:
        strict_json.write(output, {
            'dataset': _DATASET.value, 'rounds': _ROUNDS.value, 'seed': 0, 'cores': os.cpu_count(),
            'compile': _COMPILE.value, 'git_commit': provenance.git_commit(), 'cases': found})


if __name__ == '__main__':
    entry.run(main)
