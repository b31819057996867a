"""Every registered method through the whole of methods/interface.py, and the method of docs/extending.md with them."""
import functools

import numpy as np
import pytest
import tensorflow as tf
import toys
from documented import block, registries  # noqa: F401
from federations import assert_metrics_close, deploy, final_server
from run_checks import assert_same_run

from virtual_tf.core import plugins
from virtual_tf.core.errors import Interrupted, VirtualTfError
from virtual_tf.methods import registry
from virtual_tf.methods.interface import WeighedDelta, checked_update
from virtual_tf.networks import gated, layers
from virtual_tf.runs import driver

METHODS = [*registry.METHODS, 'timid']
# What states and deltas they have is what another method has, so that their long checks may wait.
ALIKE = {'ditto', 'fedivon', 'fedprox', 'fedrep', 'pfedbayes', 'pfedme'}
all_but_alike = pytest.mark.parametrize('method', [
    pytest.param(name, marks=pytest.mark.slow if name in ALIKE else ()) for name in METHODS], indirect=True)


@pytest.fixture(params=METHODS)
def method(request, tmp_path, registries, monkeypatch):     # noqa: F811
    """Its name, registered, on the toys' network."""
    if request.param == 'timid':
        path = tmp_path / 'my_method.py'
        path.write_text(block('docs/extending.md', '# my_method.py'), encoding='utf-8')
        plugins.load(path)

    @functools.cache     # a client of a deployment is made anew for each message, but need not be traced anew
    def build(settings):
        network = toys.make_network()
        return network, registry.find(settings.method).make(network, settings), settings
    monkeypatch.setattr(registry, 'build', lambda settings, dataset: build(settings))
    return request.param


def assert_same_structure(first, second):
    tf.nest.assert_same_structure(first, second)
    for a, b in zip(tf.nest.flatten(first), tf.nest.flatten(second)):
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype


def test_the_functions_keep_to_the_interface(method):
    settings, dataset = toys.make_settings(method=method), toys.make_dataset()
    network, algorithm, _ = registry.build(settings, dataset)
    server, ids = algorithm.init(0), np.arange(3)
    keys = np.arange(6, dtype=np.uint32).reshape(3, 2)
    clients = algorithm.init_clients(server, np.full(3, 0.25, np.float32), keys)
    assert isinstance(algorithm.client_update, type(tf.function(lambda: 0)))
    proposals, deltas, training = algorithm.client_update(server, clients, dataset.cohort(ids, 1, settings))
    for column in (training.loss, training.accuracy, training.accepted, *training.details.values()):
        assert column.shape == [3]
    assert_same_structure(server, algorithm.init(0))
    total = algorithm.aggregate(deltas, training.accepted)
    assert_same_structure(total, algorithm.no_delta(server))
    new_server, shrink = algorithm.server_update(server, total)
    assert_same_structure(new_server, server)
    assert shrink == {} or {name: r.shape for name, r in shrink.items()} == {
        name: value[0].shape for name, value in server.items()}
    committed = algorithm.commit(clients, proposals, deltas, shrink, training.accepted)
    assert_same_structure(committed, clients)
    models = [(algorithm.client_models(committed), 3)]
    if algorithm.server_model is not None:
        models.append((algorithm.server_model(server), 1))
    for weights, count in models:
        assert isinstance(weights, gated.Weights) and {*weights.shared} == {*network.shapes()}
        for name, weight in weights.shared.items():
            assert tuple(weight.shape if not layers.is_gaussian(weight) else weight.loc.shape) == (
                count, *network.shapes()[name])
            assert layers.is_gaussian(weight) == registry.find(method).gaussian


def test_an_empty_delta_changes_nothing_and_a_delta_sums_to_the_aggregate(method):
    settings, dataset = toys.make_settings(method=method), toys.make_dataset()
    _, algorithm, _ = registry.build(settings, dataset)
    server = algorithm.init(0)
    toys.assert_nests_close(algorithm.server_update(server, algorithm.no_delta(server))[0], server, rtol=1e-7)
    clients = algorithm.init_clients(server, np.full(2, 0.25, np.float32), np.ones([2, 2], np.uint32))
    _, deltas, _ = algorithm.client_update(server, clients, dataset.cohort(np.arange(2), 1, settings))
    alone = algorithm.aggregate(deltas, tf.constant([False, True]))
    toys.assert_nests_close(alone, tf.nest.map_structure(lambda value: value[1], deltas), rtol=1e-6)
    if isinstance(deltas, WeighedDelta):
        assert np.array_equal(deltas.size, dataset.train.targets()[:2])


def test_what_mt_tests_does_not_depend_on_r(method):
    settings, dataset = toys.make_settings(method=method), toys.make_dataset()
    _, algorithm, _ = registry.build(settings, dataset)
    server = algorithm.init(0)
    clients = algorithm.init_clients(server, np.full(2, 0.25, np.float32), np.ones([2, 2], np.uint32))
    proposals, deltas, training = algorithm.client_update(server, clients, dataset.cohort(np.arange(2), 1, settings))
    _, shrink = algorithm.server_update(server, algorithm.aggregate(deltas, training.accepted))
    halved = {name: 0.5 * r for name, r in shrink.items()}
    first, second = (algorithm.client_models(algorithm.commit(clients, proposals, deltas, r, training.accepted))
                     for r in (shrink, halved))
    for name, weight in first.shared.items():
        same = (weight, second.shared[name]) if not layers.is_gaussian(weight) else (
            weight.loc, second.shared[name].loc)
        assert np.array_equal(*same)


@all_but_alike
def test_in_groups_every_client_has_the_numbers_that_it_has_among_all(method):
    dataset = toys.make_dataset()
    settings = toys.make_settings(method=method, clients_per_round=4)
    histories = [toys.play(settings.replace(clients_per_call=count), dataset)[2] for count in (0, 1, 3)]
    for other in histories[1:]:
        assert_metrics_close(histories[0], other, skip=())


def test_a_dropped_client_keeps_its_state_and_changes_nobody(method):
    dataset = toys.make_dataset()
    dataset.train.x[dataset.train.offsets[1]] = np.nan
    settings = toys.make_settings(method=method, rounds=1, clients_per_round=4)
    simulation, state, (metrics,) = toys.play(settings, dataset)
    assert metrics['dropped_clients'] == 1 and 1 not in state.clients and 0 in state.clients
    assert all(np.isfinite(leaf).all() for leaf in tf.nest.flatten(state.server))
    toys.assert_nests_close(state.clients.read([1]), simulation.start().clients.read([1]))


@all_but_alike
def test_after_a_restart_the_run_comes_to_the_same_end(method, tmp_path):
    dataset, settings = toys.make_dataset(), toys.make_settings(method=method, rounds=4, checkpoint_every=1)
    driver.run(settings, dataset, tmp_path / 'whole', progress=False)
    asked = iter([False, False, True])
    with pytest.raises(Interrupted):
        driver.run(settings, dataset, tmp_path / 'halves', progress=False, stop=lambda: next(asked))
    driver.run(settings, dataset, tmp_path / 'halves', progress=False)
    assert_same_run(tmp_path / 'whole', tmp_path / 'halves')


@all_but_alike
def test_as_clients_of_a_deployment_the_numbers_are_the_simulators(method, tmp_path):
    dataset = toys.make_dataset(validation=0.25)
    settings = toys.make_settings(method=method, rounds=3, clients_per_round=3)
    _, simulated, history = toys.play(settings, dataset)
    _, deployed = deploy(settings, dataset, tmp_path)
    # A Gaussian weight that no example moves differs from what it was by rounding, or does not and is left out.
    counts = ('bytes_up', 'parameters_up')
    assert_metrics_close(history, deployed, skip=('bytes_down', *counts))
    for name in counts:
        np.testing.assert_allclose(*([row[name] for row in rows] for rows in (history, deployed)),
                                   rtol=0.05 if registry.find(method).gaussian else 0.0)
    for a, b in zip(tf.nest.flatten(simulated.server), final_server(tmp_path)):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize('outcome, message', [
    ({'w': 1.0, 'v': 2.0}, 'must give .server state, shrink., it gives a dict'),
    (({'w': 1.0}, {'speed': 1.0}), "has 'speed', which is no weight; figures for the logs belong into")])
def test_a_server_update_that_gives_something_else_is_told(outcome, message):
    with pytest.raises(VirtualTfError, match=message):
        checked_update(outcome, {'w': 0.0})


def test_the_documented_method_with_whole_steps_is_fedavg(tmp_path, registries):     # noqa: F811
    path = tmp_path / 'my_method.py'
    path.write_text(block('docs/extending.md', '# my_method.py'), encoding='utf-8')
    plugins.load(path)
    dataset, given = toys.make_dataset(), {'rounds': 3, 'clients_per_round': 3, 'values': 'float16'}
    timid, fedavg = (toys.play(toys.make_settings(method=name, **given, **own), dataset)
                     for name, own in (('timid', {'boldness': 1.0}), ('fedavg', {})))
    toys.assert_nests_close(timid[1].server, fedavg[1].server, rtol=1e-6)
    assert [row['bytes_up'] for row in timid[2]] == [row['bytes_up'] for row in fedavg[2]]
