"""Deltas in whole steps, and Flower's SecAgg+ arithmetic on them."""
import numpy as np
import pytest
import tensorflow as tf
from flwr.common.secure_aggregation.quantization import dequantize, quantize

from virtual_tf import data
from virtual_tf.deploy import units
from virtual_tf.methods.registry import make_settings
from virtual_tf.methods.virtual.gaussian import NaturalGaussian
from virtual_tf.runs import driver

SHAPES = {'b/kernel': (30, 7), 'a/kernel': (7, 4)}


def random_state(seed=0):
    generator = np.random.default_rng(seed)
    return {name: NaturalGaussian(generator.normal(size=shape).astype(np.float32) * 100,
                                  generator.uniform(1e2, 1e6, shape).astype(np.float32))
            for name, shape in SHAPES.items()}


def random_delta(server, seed):
    generator = np.random.default_rng(seed)
    return {name: NaturalGaussian(
        (generator.normal(size=xi.shape) * np.sqrt(xi)).astype(np.float32),
        (generator.uniform(-0.5, 1, xi.shape) * xi).astype(np.float32)) for name, (_, xi) in server.items()}


def test_rounding_moves_a_mean_and_a_precision_by_half_a_step_at_most():
    server = random_state()
    delta = random_delta(server, 1)
    steps, clipped = units.to_steps(delta, server)
    back = units.from_steps(steps, server)
    assert clipped == 0 and list(back) == list(server)
    for name, (_, xi) in server.items():
        for part, kept, scale in zip(delta[name], back[name], (units.PULL * np.sqrt(xi), xi)):
            # half a step, and float32's own rounding of values of up to 4 units
            assert np.all(np.abs(part - kept) <= (units.STEP / 2 + 4e-7) * scale)


def test_a_rounded_delta_gives_the_same_steps_again():
    server = random_state()
    steps, _ = units.to_steps(random_delta(server, 1), server)
    again, _ = units.to_steps(units.from_steps(steps, server), server)
    for a, b in zip(steps, again):
        np.testing.assert_array_equal(a, b)


def test_the_sum_that_the_server_gets_is_the_sum_of_what_clients_keep():
    server, clients = random_state(), 5
    steps = [units.to_steps(random_delta(server, i), server)[0] for i in range(clients)]
    total = [sum(parts) for parts in zip(*(quantize(one, units.CLIP, units.LEVELS) for one in steps))]
    mean = [(value - (clients - 1) * units.CLIP) / clients
            for value in dequantize(total, units.CLIP, units.LEVELS)]
    applied = units.from_steps([clients * value for value in mean], server)
    kept = [units.from_steps(one, server) for one in steps]
    for name in server:
        for kind in range(2):
            parts = np.stack([one[name][kind] for one in kept]).astype(np.float64)
            np.testing.assert_allclose(applied[name][kind], parts.sum(axis=0), rtol=1e-6,
                                       atol=1e-6 * np.abs(parts).max())


def test_what_is_clipped_is_counted():
    server = {'a/kernel': NaturalGaussian(np.zeros(3, np.float32), np.full(3, 4, np.float32))}
    # In units of 32√4 and of 4: (256, 0), (1, 0), (2, 512), and the first and the last become 1/2 and 1/4 of that
    delta = {'a/kernel': NaturalGaussian(np.float32([256 * 64, 64, 128]), np.float32([0, 0, 2048]))}
    steps, clipped = units.to_steps(delta, server)
    assert clipped == 2
    np.testing.assert_array_equal(steps, [[128, 1, 0.5], [0, 0, 128]])


@pytest.mark.slow
def test_twenty_rounds_in_steps_are_as_accurate_as_without():
    """watch, all settings as they come; what secure aggregation does to a delta, done in the simulator."""
    settings = make_settings({'rounds': 20, 'private': 'none'})
    dataset, clipped, last = data.load('', settings), 0, {}

    def in_steps(update):
        def rounded(server, clients, cohort):
            nonlocal clipped
            proposals, deltas, training = update(server, clients, cohort)
            rows = []
            for i in range(len(cohort.size)):
                steps, count = units.to_steps({name: NaturalGaussian(*(part[i].numpy() for part in value))
                                               for name, value in deltas.items()}, server)
                clipped += count
                rows.append(units.from_steps(steps, server))
            return proposals, tf.nest.map_structure(lambda *parts: tf.stack(parts), *rows), training
        return rounded

    for name, change in (('exact', lambda update: update), ('steps', in_steps)):
        simulation = driver.build(settings, dataset)
        simulation.algorithm = simulation.algorithm._replace(
            client_update=change(simulation.algorithm.client_update))
        *_, last[name] = simulation.run(simulation.start())
    for key in ('server/accuracy', 'mt/accuracy', 'server/cross_entropy', 'mt/cross_entropy'):
        print(key, last['exact'][key], last['steps'][key])
        np.testing.assert_allclose(last['exact'][key], last['steps'][key], atol=0.01)
    assert clipped == 0
