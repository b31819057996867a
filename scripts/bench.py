"""Microseconds for one SGD step of one client: one call, groups side by side, Keras, bare matmuls, JAX.

    python -m scripts.bench --model=mlp,conv,lstm --output=results/bench.json
    python -m scripts.bench --model= --rivals --output=results/bench.json     # the study rivals alone

At the paper's sizes: 10 clients, batch 20 of 28×28 images (mlp, conv) or 10 of 80 characters (lstm). Each row is
measured in a process of its own (scripts/bench_rows.py), on all cores and on one; columns are medians of several
repeats, each a whole round after a warm-up, with the smallest and largest; the ratios compare medians. A step is the
plain one, with neither clipping nor what comes after the last step, unless the row says otherwise. `one call` stacks
all clients and leaves the cores to TensorFlow; `groups` is how the simulator runs. Keras trains one model a client with
`fit` from a cached tf.data pipeline: with TFP's layers where they exist, and with plain ones.
"""
import contextlib
import importlib.util
import json
import os
import pathlib
import platform
import subprocess
import sys

from absl import flags

from virtual_tf.core import processors, safe_files, strict_json
from virtual_tf.core.errors import VirtualTfError

from . import bench_rivals, bench_rows, bench_scale, entry, keras_models

PLAIN = {'max_gradient_norm': 0.0, 'backtracking': False}
STEP = PLAIN | {'precision_update': 'sgd', 'mt_model': 'trained'}
OURS = {'VIRTUAL': {'method': 'virtual', 'private': 'none', **STEP},
        'VIRTUAL, residual private path': {'method': 'virtual', 'private': 'residual', **STEP},
        'FedAvg': {'method': 'fedavg', **PLAIN}}


def define_flags():
    flags.DEFINE_list('model', ['mlp'], f'networks to measure, of {", ".join(bench_rows.SIZES)}')
    flags.DEFINE_integer('epochs', 5, 'epochs of a measured round', lower_bound=1)
    flags.DEFINE_integer('repeats', 7, 'measured rounds', lower_bound=1)
    flags.DEFINE_bool('scale', False, 'also measure up to 10,000 clients: 8 minutes and 6 GB of disk')
    flags.DEFINE_bool('rivals', False, 'also measure a step and a round of every method of the study rivals, on one '
                      'core: 10 minutes; --model= leaves the networks out')
    flags.DEFINE_string('output', None, 'json file to write; what it has of other networks stays')


def rows_of(model):
    """{name: arguments for bench_rows}"""
    rows = {}
    for name, options in OURS.items():
        rows[f'{name}, one call'] = {'what': 'ours', 'one_call': True, **options}
        rows[f'{name}, groups'] = {'what': 'ours', **options}
    virtual = {'what': 'ours', **OURS['VIRTUAL']}
    rows['VIRTUAL, natural precision, groups'] = virtual | {'precision_update': 'natural'}
    rows['VIRTUAL, groups, 10 threads'] = virtual | {'threads': bench_rows.CLIENTS}
    rows['Keras model a client, plain layers'] = {'what': 'keras', 'bayesian': False}
    if keras_models.has_bayesian(model):
        rows['Keras model a client, TFP layers'] = {'what': 'keras', 'bayesian': True}
    if model == 'mlp':
        for name, passes in (('a FedAvg step', 1), ('a VIRTUAL step', 2)):
            rows[f'bare matmuls of {name}, one call'] = {'what': 'matmuls', 'passes': passes, 'one_call': True}
            rows[f'bare matmuls of {name}, groups'] = {'what': 'matmuls', 'passes': passes}
    return rows


def measure(model, epochs, repeats, everything):
    """{row: {'all cores': summary, 'one core': summary}}"""
    cores = processors.cores()
    common = {'model': model, 'epochs': epochs, 'repeats': repeats}
    found = {}
    for name, row in everything.items():
        found[name] = {place: _in_process(row | common, of_place)
                       for place, of_place in (('all cores', cores), ('one core', cores[:1]))}
    if model == 'mlp' and importlib.util.find_spec('jax'):
        for name in ('FedAvg', 'VIRTUAL'):
            row = {'what': 'jax', 'method': name.lower(), 'clients': bench_rows.CLIENTS, **common}
            found[f'JAX, {name}, one call'] = {
                place: _in_process(row, of_place)
                for place, of_place in (('all cores', cores), ('one core', cores[:1]))}
            found[f'JAX, {name}, a process a core'] = {'all cores': _a_process_a_core(row, cores)}
    return found


def _command(row, cores, *more):
    return [sys.executable, '-m', f'{__package__}.bench_rows', f'--row={json.dumps(row)}',
            f'--cores={",".join(map(str, cores))}', *more]


def _in_process(row, cores):
    answer = subprocess.run(_command(row, cores), stdout=subprocess.PIPE, check=True, env=_environment())
    measured = json.loads(answer.stdout.splitlines()[-1])
    return bench_rows.summary(measured['times']) | {'peak_mb': measured['peak_mb']}


def _a_process_a_core(row, cores):
    """The clients dealt out to processes that are measured at the same time: of each round the slowest one's time."""
    share = -(-row['clients'] // len(cores))
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(subprocess.Popen(
            _command(row | {'clients': share}, [core], '--together'), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=_environment())) for core in cores]
        for process in started:
            process.stdout.readline()
        for process in started:
            process.stdin.write('go\n')
            process.stdin.flush()
        times = [json.loads(process.stdout.readline())['times'] for process in started]
    return bench_rows.summary([max(of_round) / len(cores) for of_round in zip(*times)])


def _environment():
    # tfp.layers are layers of Keras 2; what the libraries say of themselves is not measured.
    return os.environ | {'TF_USE_LEGACY_KERAS': '1', 'TF_CPP_MIN_LOG_LEVEL': '3'}


def ratios(rows):
    """{name: ratio of two medians}, of those rows that were measured."""
    pairs = {f'{name}: one call / groups': (f'{name}, one call', f'{name}, groups', 'all cores') for name in OURS}
    pairs |= {'natural precision / SGD on σ': ('VIRTUAL, natural precision, groups', 'VIRTUAL, groups', 'one core'),
              '10 threads / a thread a core': ('VIRTUAL, groups, 10 threads', 'VIRTUAL, groups', 'all cores'),
              'Keras with TFP layers / VIRTUAL': ('Keras model a client, TFP layers', 'VIRTUAL, groups', 'all cores'),
              'Keras with plain layers / FedAvg': ('Keras model a client, plain layers', 'FedAvg, groups', 'all cores')}
    for place in ('all cores', 'one core'):
        of_place = '' if place == 'all cores' else ', one core'
        pairs[f'VIRTUAL / FedAvg{of_place}'] = 'VIRTUAL, groups', 'FedAvg, groups', place
        for name in ('VIRTUAL', 'FedAvg'):
            pairs[f'{name} / its matmuls{of_place}'] = (
                f'{name}, groups', f'bare matmuls of a {name} step, groups', place)
    found = {name: rows[first][place]['median'] / rows[second][place]['median']
             for name, (first, second, place) in pairs.items() if first in rows and second in rows}
    for name in ('VIRTUAL', 'FedAvg'):
        if f'JAX, {name}, one call' in rows:
            ours = rows[f'{name}, groups']
            found[f'{name} / JAX, one core'] = (
                ours['one core']['median'] / rows[f'JAX, {name}, one call']['one core']['median'])
            found[f'{name} / JAX, a process a core'] = (
                ours['all cores']['median'] / rows[f'JAX, {name}, a process a core']['all cores']['median'])
        found[f'{name}: one core / all cores'] = (
            rows[f'{name}, groups']['one core']['median'] / rows[f'{name}, groups']['all cores']['median'])
    return found


def compare(model, epochs, repeats):
    """Rows and ratios of one network."""
    rows = measure(model, epochs, repeats, rows_of(model))
    return {'microseconds': rows, 'ratios': ratios(rows), 'epochs': epochs, 'repeats': repeats}


def show(model, results):
    print(f'{model + ", microseconds per client step":50}{"all cores: median":>18}{"min":>8}{"max":>8}{"one core":>10}')
    for name, places in results['microseconds'].items():
        row, one = places['all cores'], places.get('one core')
        print(f'{name:50}{row["median"]:18,.0f}{row["min"]:8,.0f}{row["max"]:8,.0f}'
              + (f'{one["median"]:10,.0f}' if one else ''))
    print('\n'.join(f'{name:50}{value:18.2f}' for name, value in results['ratios'].items()) + '\n', flush=True)


def main(_):
    values = flags.FLAGS
    unknown = [model for model in values.model if model not in bench_rows.SIZES]
    if unknown:
        raise VirtualTfError(f'model {unknown[0]!r} is unknown; known are {", ".join(bench_rows.SIZES)}')
    output = pathlib.Path(values.output).expanduser() if values.output else None
    kept = {}
    if output:
        safe_files.check_writable(output.parent, 'output')   # now, not after minutes
        kept = strict_json.read(output) if output.exists() else {}
    results = {}
    for model in values.model:
        results[model] = compare(model, values.epochs, values.repeats)
        show(model, results[model])
    more = {'scale': bench_scale.scale_table()} if values.scale else {}
    if values.rivals:
        more['rivals'] = bench_rivals.compare(
            lambda row: _in_process(row, processors.cores()[:1]), values.epochs, values.repeats)
        bench_rivals.show(more['rivals'])
    if output:
        strict_json.write(output, kept | {
            'sizes': {'clients': bench_rows.CLIENTS, 'examples and batch': bench_rows.SIZES},
            'machine': {'cores': len(processors.cores()), 'processor': platform.machine()}, **results, **more})


if __name__ == '__main__':
    entry.run(main, define_flags)
