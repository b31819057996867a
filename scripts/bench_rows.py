"""What scripts.bench times: each row in a process of its own, on the cores that it is given.

    python -m scripts.bench_rows --row='{"what": "ours", "method": "virtual"}' --cores=0

prints the microseconds per client step of each measured round, and the process's peak memory, as JSON.
"""
import json
import os
import resource
import statistics
import time

import numpy as np
import tensorflow as tf
from absl import flags

from virtual_tf.core import processors, random_streams
from virtual_tf.data.federated import FederatedDataset, Split

from . import entry

CLIENTS = 10
# Examples a client, batch size; the costlier a step, the fewer are timed.
SIZES = {'mlp': (500, 20), 'conv': (100, 20), 'lstm': (30, 10)}
TOKENS, LENGTH, CLASSES = 87, 80, 10
LAYERS = ((784, 100), (100, 100), (100, CLASSES))     # of the MLP


def define_flags():
    flags.DEFINE_string('row', '{}', 'what to time: the arguments of a function of this module, and its name as what')
    flags.DEFINE_list('cores', [], 'numbers of the cores to keep to; all if empty')
    flags.DEFINE_bool('together', False, 'wait for a line on standard input before the measured rounds')


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


def ours(model, epochs, method, one_call=False, **options):
    """A round's training from the cohort to the trained weights, in one call or in groups side by side."""
    if one_call:     # before the simulator says that an operation has one thread
        tf.config.threading.set_intra_op_parallelism_threads(len(processors.cores()))
        options |= {'threads': 1, 'clients_per_call': CLIENTS}
    from virtual_tf.methods.registry import make_settings
    from virtual_tf.runs import driver
    settings = make_settings({'method': method, 'model': model, 'dataset': 'bench', 'epochs': epochs,
                              'batch_size': SIZES[model][1], 'clients_per_round': CLIENTS, 'clients_per_call': 0,
                              **options})
    simulation = driver.build(settings, make_dataset(model))
    state, ids = simulation.start(), np.arange(CLIENTS)
    states = state.clients.read(ids)
    return lambda: simulation.train(state.server, states, ids, 1)[2].loss.numpy(), CLIENTS


def keras(model, epochs, bayesian):
    """One Keras model a client, trained in turn with `fit` from a cached pipeline."""
    from . import keras_models
    (size, batch), dataset = SIZES[model], make_dataset(model)
    networks, pipelines = [], []
    for i in range(CLIENTS):
        pipelines.append(tf.data.Dataset.from_tensor_slices(dataset.train.client(i)).cache().shuffle(size).batch(batch)
                         .prefetch(tf.data.AUTOTUNE))
        networks.append(keras_models.make(model, dataset.num_classes, bayesian, size))

    def play_round():
        for network, pipeline in zip(networks, pipelines):
            network.fit(pipeline, epochs=epochs, verbose=0)
    return play_round, CLIENTS


def matmuls(model, epochs, passes, one_call=False):
    """The batched products of an MLP's step alone, forward, to the inputs, to the weights; VIRTUAL has two passes."""
    if one_call:
        tf.config.threading.set_intra_op_parallelism_threads(len(processors.cores()))
    from virtual_tf.simulator import side_by_side
    threads = 1 if one_call else len(processors.cores())
    if not one_call:     # as side_by_side.prepare does
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    steps, per_call = epochs * SIZES[model][0] // SIZES[model][1], -(-CLIENTS // threads)

    @tf.function(jit_compile=True, autograph=False)
    def play(x, networks):
        def one_pass(kernels):
            inputs, outputs, products = [], x, []
            for kernel in kernels:
                inputs.append(outputs)
                outputs = tf.matmul(outputs, kernel)
            for i in reversed(range(len(kernels))):
                products.insert(0, tf.matmul(inputs[i], outputs, transpose_a=True))
                if i:
                    outputs = tf.matmul(outputs, kernels[i], transpose_b=True)
            return products

        def step(t, networks):
            return t + 1, [one_pass(kernels) for kernels in networks]
        return tf.while_loop(lambda t, *_: t < steps, step, (0, networks))[1]

    def play_group(_):
        return [value.numpy() for value in tf.nest.flatten(play(x, networks))]
    x = tf.fill([per_call, SIZES[model][1], 784], 0.5)
    networks = [[tf.fill([per_call, *shape], 0.01) for shape in LAYERS] for _ in range(passes)]
    return lambda: side_by_side.map_groups(play_group, range(threads), threads), per_call * threads


def jax(model, epochs, method, clients):
    """The twin in JAX, for so many clients."""
    from . import bench_jax
    size, batch = SIZES[model]
    return bench_jax.make_round(method, clients, size, batch, epochs, LAYERS), clients


def measure(play_round, model, clients, epochs, repeats, ready=lambda: None):
    """Microseconds per client step of `repeats` rounds, after one that compiles and one that warms up."""
    steps = clients * epochs * SIZES[model][0] // SIZES[model][1]
    times = []
    for i in range(repeats + 2):
        if i == 2:
            ready()
        started = time.perf_counter()
        play_round()
        if i >= 2:
            times.append(1e6 * (time.perf_counter() - started) / steps)
    return times


def summary(times):
    return {'median': statistics.median(times), 'min': min(times), 'max': max(times)}


def main(_):
    values = flags.FLAGS
    if values.cores:
        os.sched_setaffinity(0, {int(core) for core in values.cores})     # before TensorFlow counts them
    arguments = json.loads(values.row)
    what, repeats = arguments.pop('what'), arguments.pop('repeats')
    play_round, clients = {'ours': ours, 'keras': keras, 'matmuls': matmuls, 'jax': jax}[what](**arguments)

    def ready():
        if values.together:
            print('ready', flush=True)
            input()
    times = measure(play_round, arguments['model'], clients, arguments['epochs'], repeats, ready)
    print(json.dumps({'times': times, 'peak_mb': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


if __name__ == '__main__':
    entry.run(main, define_flags)
