"""Microseconds for one SGD step of one client, against the design of one Keras model a client.

    python -m scripts.bench --model=mlp,conv,lstm --output=results/bench.json

All in one process, at the paper's sizes: 10 clients, batch 20 of 28×28 images (mlp, conv) or 10 of 80 characters
(lstm). Columns are medians of several repeats, each a whole round after a warm-up, with the smallest and largest; the
ratios compare medians. Reference (a) trains one Keras model a client with `fit` from a cached tf.data pipeline, built
and warmed before the clock starts: with TFP's layers where they exist, and with plain ones.
"""
import os
import pathlib
import platform
import statistics
import time

import numpy as np
import tensorflow as tf
from absl import flags

from virtual_tf.core import random_streams, safe_files, strict_json
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.data.federated import FederatedDataset, Split
from virtual_tf.methods.registry import make_settings
from virtual_tf.runs import driver

from . import bench_scale, entry, keras_models

CLIENTS = 10
# Examples a client, batch size; the costlier a step, the fewer are timed.
SIZES = {'mlp': (500, 20), 'conv': (100, 20), 'lstm': (30, 10)}
TOKENS, LENGTH, CLASSES = 87, 80, 10


def define_flags():
    flags.DEFINE_list('model', ['mlp'], f'networks to measure, of {", ".join(SIZES)}')
    flags.DEFINE_integer('epochs', 5, 'epochs of a measured round', lower_bound=1)
    flags.DEFINE_integer('repeats', 7, 'measured rounds', lower_bound=1)
    flags.DEFINE_bool('scale', False, 'also measure up to 10,000 clients: 8 minutes and 6 GB of disk')
    flags.DEFINE_string('output', None, 'json file to write')


def make_dataset(model, clients=CLIENTS):
    """Random examples; the speed does not depend on what they show."""
    generator, size = random_streams.make_generator(0), SIZES[model][0]

    def examples():
        if model == 'lstm':
            return (generator.integers(0, TOKENS, (size, LENGTH), np.int32),
                    generator.integers(1, TOKENS, (size, LENGTH), np.int32))
        return (generator.uniform(size=(size, 28, 28, 1)).astype(np.float32),
                generator.integers(0, CLASSES, size, np.int32))
    split = Split.of([examples() for _ in range(clients)])
    return FederatedDataset('bench', tuple(map(str, range(clients))), split, split,
                            TOKENS if model == 'lstm' else CLASSES)


def time_keras(model, dataset, bayesian, epochs, repeats):
    """One Keras model a client, trained in turn."""
    size, batch = SIZES[model]
    networks, pipelines = [], []
    for i in range(CLIENTS):
        pipelines.append(tf.data.Dataset.from_tensor_slices(dataset.train.client(i)).cache().shuffle(size).batch(batch)
                         .prefetch(tf.data.AUTOTUNE))
        networks.append(keras_models.make(model, dataset.num_classes, bayesian, size))

    def play_round():
        for network, pipeline in zip(networks, pipelines):
            network.fit(pipeline, epochs=epochs, verbose=0)
    return measure(play_round, model, CLIENTS, epochs, repeats)


def time_ours(model, dataset, method, epochs, repeats, **options):
    """All clients in one compiled call, from the cohort to the trained weights."""
    clients = len(dataset.clients)
    settings = make_settings({'method': method, 'model': model, 'dataset': 'bench', 'epochs': epochs,
                              'batch_size': SIZES[model][1], 'clients_per_round': clients, **options})
    simulation = driver.build(settings, dataset)
    state = simulation.start()
    ids = np.arange(clients)
    states = state.clients.read(ids)

    def play_round():
        cohort = dataset.cohort(ids, 1, settings)
        _, _, training = simulation.algorithm.client_update(state.server, states, cohort)
        training.loss.numpy()
    return measure(play_round, model, clients, epochs, repeats)


def time_matmuls(epochs, repeats):
    """The batched matmuls of a deterministic MLP step alone: forward, to the inputs, to the weights."""
    size, batch = SIZES['mlp']
    x = tf.fill([CLIENTS, batch, 784], 0.5)
    kernels = [tf.fill([CLIENTS, *shape], 0.01) for shape in ((784, 100), (100, 100), (100, 10))]

    @tf.function(jit_compile=True, autograph=False)
    def play(kernels):
        def step(t, *kernels):
            inputs, outputs = [], x
            for kernel in kernels:
                inputs.append(outputs)
                outputs = tf.matmul(outputs, kernel)
            products = []
            for i in reversed(range(len(kernels))):
                products.insert(0, tf.matmul(inputs[i], outputs, transpose_a=True))
                if i:
                    outputs = tf.matmul(outputs, kernels[i], transpose_b=True)
            return (t + 1, *products)
        return tf.while_loop(lambda t, *_: t < epochs * size // batch, step, (0, *kernels))[1]
    return measure(lambda: play(kernels).numpy(), 'mlp', CLIENTS, epochs, repeats)


def measure(play_round, model, clients, epochs, repeats):
    """Microseconds per client step of `repeats` rounds, after one that compiles and one that warms up."""
    size, batch = SIZES[model]
    steps = clients * epochs * size // batch
    times = []
    for i in range(repeats + 2):
        started = time.perf_counter()
        play_round()
        if i >= 2:
            times.append(1e6 * (time.perf_counter() - started) / steps)
    return {'median': statistics.median(times), 'min': min(times), 'max': max(times)}


def compare(model, epochs, repeats):
    """Rows and ratios of one network."""
    dataset = make_dataset(model)
    rows = {
        '(b) VIRTUAL, no private path': time_ours(model, dataset, 'virtual', epochs, repeats, private='none'),
        '(b) VIRTUAL, residual private path': time_ours(model, dataset, 'virtual', epochs, repeats, private='residual'),
        '(c) FedAvg': time_ours(model, dataset, 'fedavg', epochs, repeats),
        '(a) Keras model a client, plain layers': time_keras(model, dataset, False, epochs, repeats)}
    virtual, _, fedavg, plain = (row['median'] for row in rows.values())
    ratios = {'(b)/(c)': virtual / fedavg, '(a plain)/(c)': plain / fedavg}
    if keras_models.has_bayesian(model):
        rows['(a) Keras model a client, TFP layers'] = row = time_keras(model, dataset, True, epochs, repeats)
        ratios['(a)/(b)'] = row['median'] / virtual
    if model == 'mlp':
        rows['bare matmuls of a FedAvg step'] = row = time_matmuls(epochs, repeats)
        ratios['(c)/matmuls'] = fedavg / row['median']
    if model == 'lstm':
        rows['(c) FedAvg, one client a call'] = row = time_ours(
            model, make_dataset(model, 1), 'fedavg', epochs, repeats)
        ratios['10 single steps/1 stacked'] = row['median'] / fedavg
    return {'microseconds': rows, 'ratios': ratios}


def main(_):
    values = flags.FLAGS
    epochs, repeats = values.epochs, values.repeats
    unknown = [model for model in values.model if model not in SIZES]
    if unknown:
        raise VirtualTfError(f'model {unknown[0]!r} is unknown; known are {", ".join(SIZES)}')
    output = pathlib.Path(values.output).expanduser() if values.output else None
    if output:
        safe_files.check_writable(output.parent, 'output')   # now, not after minutes
    results = {}
    for model in values.model:
        results[model] = compare(model, epochs, repeats)
        print(f'{model + ", microseconds per client step":42}{"median":>9}{"min":>9}{"max":>9}')
        for name, row in results[model]['microseconds'].items():
            print(f'{name:42}{row["median"]:9.0f}{row["min"]:9.0f}{row["max"]:9.0f}')
        print('  '.join(f'{name} = {value:.2f}' for name, value in results[model]['ratios'].items()) + '\n', flush=True)
    scale = {'scale': bench_scale.scale_table()} if values.scale else {}
    if output:
        strict_json.write(output, {
            'sizes': {'clients': CLIENTS, 'examples and batch': SIZES, 'epochs': epochs, 'repeats': repeats},
            'machine': {'cores': os.cpu_count(), 'processor': platform.machine()}, **results, **scale})


if __name__ == '__main__':
    entry.run(main, define_flags)
