"""Microseconds for one SGD step of one client, against the design of one Keras model a client.

    python -m scripts.bench --output=results/bench.json

All in one process, at the paper's MLP sizes: 10 clients × 500 examples, batch 20, 784-100-100-10. Columns are medians
of several repeats, each a whole round after a warm-up, with the smallest and largest; the ratios compare medians.
"""
import os
import pathlib
import platform
import statistics
import time

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
import tf_keras
from absl import flags

from scripts import bench_scale, entry
from virtual_tf import experiments, streams
from virtual_tf.data.federated import FederatedDataset, Split
from virtual_tf.settings import make_settings

CLIENTS, EXAMPLES, BATCH, FEATURES, HIDDEN, CLASSES = 10, 500, 20, 784, 100, 10

_EPOCHS = flags.DEFINE_integer('epochs', 5, 'epochs of a measured round', lower_bound=1)
_REPEATS = flags.DEFINE_integer('repeats', 7, 'measured rounds', lower_bound=1)
_SCALE = flags.DEFINE_bool('scale', False, 'also measure up to 10,000 clients, which takes minutes and 6 GB of disk')
_OUTPUT = flags.DEFINE_string('output', None, 'json file to write')


def make_dataset():
    """Random images; the speed does not depend on what they show."""
    generator = streams.make_generator(0)
    pairs = [(generator.uniform(size=(EXAMPLES, FEATURES)).astype(np.float32),
              generator.integers(0, CLASSES, EXAMPLES).astype(np.int32)) for _ in range(CLIENTS)]
    split = Split.of(pairs)
    return FederatedDataset('bench', tuple(map(str, range(CLIENTS))), split, split, CLASSES)


def keras_model(bayesian):
    """A client of the reference design: TFP layers by local reparameterisation, or their plain twins."""
    if bayesian:
        def dense(units, activation=None):
            # Each weight's KL counts once, divided by the number of examples, as in the free energy.
            return tfp.layers.DenseLocalReparameterization(
                units, activation=activation, bias_posterior_fn=None,
                kernel_divergence_fn=lambda q, p, _: tfp.distributions.kl_divergence(q, p) * (1e-5 / EXAMPLES))
    else:
        def dense(units, activation=None):
            return tf_keras.layers.Dense(units, activation=activation, use_bias=False)
    model = tf_keras.Sequential([dense(HIDDEN, 'relu'), dense(HIDDEN, 'relu'), dense(CLASSES)])
    model.compile(tf_keras.optimizers.legacy.SGD(0.1),
                  tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def time_keras(dataset, bayesian, epochs, repeats):
    """One model a client, trained in turn with `fit` from a cached pipeline that is built and warm."""
    models, pipelines = [], []
    for i in range(CLIENTS):
        x, y = dataset.train.client(i)
        pipelines.append(tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(EXAMPLES).batch(BATCH)
                         .prefetch(tf.data.AUTOTUNE))
        models.append(keras_model(bayesian))

    def play_round():
        for model, pipeline in zip(models, pipelines):
            model.fit(pipeline, epochs=epochs, verbose=0)
    return measure(play_round, epochs, repeats)


def time_ours(dataset, method, epochs, repeats, **options):
    """All clients in one compiled call, from the cohort to the trained weights."""
    settings = make_settings({'method': method, 'dataset': 'bench', 'epochs': epochs, 'batch_size': BATCH,
                              'clients_per_round': CLIENTS, **options})
    simulation = experiments.build(settings, dataset)
    state = simulation.start()
    ids = np.arange(CLIENTS)
    clients = state.clients.read(ids)

    def play_round():
        cohort = dataset.cohort(ids, 1, settings)
        proposals, _, _ = simulation.algorithm.client_update(state.server, clients, cohort)
        tf.nest.flatten(proposals)[0].numpy()
    return measure(play_round, epochs, repeats)


def time_matmuls(dataset, epochs, repeats):
    """The batched matmuls of a deterministic step alone: forward, to the inputs, to the weights."""
    x = tf.constant(np.stack([dataset.train.client(i)[0][:BATCH] for i in range(CLIENTS)]))
    sizes = [(FEATURES, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, CLASSES)]
    kernels = [tf.fill([CLIENTS, *size], 0.01) for size in sizes]

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
        return tf.while_loop(lambda t, *_: t < epochs * EXAMPLES // BATCH, step, (0, *kernels))[1]
    return measure(lambda: play(kernels).numpy(), epochs, repeats)


def measure(play_round, epochs, repeats):
    """Microseconds per client step of `repeats` rounds, after one that compiles and one that warms up."""
    steps = CLIENTS * epochs * EXAMPLES // BATCH
    times = []
    for i in range(repeats + 2):
        started = time.perf_counter()
        play_round()
        if i >= 2:
            times.append(1e6 * (time.perf_counter() - started) / steps)
    return {'median': statistics.median(times), 'min': min(times), 'max': max(times)}


def main(_):
    epochs, repeats = _EPOCHS.value, _REPEATS.value
    dataset = make_dataset()
    rows = {
        '(a) Keras model a client, TFP layers, fit': time_keras(dataset, True, epochs, repeats),
        '(a) the same, plain layers': time_keras(dataset, False, epochs, repeats),
        '(b) VIRTUAL, no private path': time_ours(dataset, 'virtual', epochs, repeats, private='none'),
        '(b) VIRTUAL, residual private path': time_ours(dataset, 'virtual', epochs, repeats, private='residual'),
        '(c) FedAvg': time_ours(dataset, 'fedavg', epochs, repeats),
        'bare matmuls of a FedAvg step': time_matmuls(dataset, epochs, repeats),
    }
    median = [row['median'] for row in rows.values()]
    ratios = {'(a)/(b)': median[0] / median[2], '(b)/(c)': median[2] / median[4], '(c)/matmuls': median[4] / median[5]}
    print(f'{"microseconds per client step":42}{"median":>9}{"min":>9}{"max":>9}')
    for name, row in rows.items():
        print(f'{name:42}{row["median"]:9.0f}{row["min"]:9.0f}{row["max"]:9.0f}')
    print('  '.join(f'{name} = {value:.2f}' for name, value in ratios.items()))
    scale = {'scale': bench_scale.scale_table()} if _SCALE.value else {}
    if _OUTPUT.value:
        experiments.write_json(pathlib.Path(_OUTPUT.value), {
            'sizes': {'clients': CLIENTS, 'examples': EXAMPLES, 'batch': BATCH, 'epochs': epochs, 'repeats': repeats,
                      'layers': [FEATURES, HIDDEN, HIDDEN, CLASSES]},
            'machine': {'cores': os.cpu_count(), 'processor': platform.machine()},
            'microseconds': rows, 'ratios': ratios, **scale})


if __name__ == '__main__':
    entry.run(main)
