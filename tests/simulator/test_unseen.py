"""Clients that nobody has seen: kept out by seed, tested as the server is, and after a visit that starts from it."""
import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from toys import make_dataset, make_settings, make_simulation

from virtual_tf.core import strict_json
from virtual_tf.data.federated import DataError
from virtual_tf.methods import registry
from virtual_tf.runs import driver, provenance
from virtual_tf.runs.folder import RunFolder
from virtual_tf.simulator import unseen
from virtual_tf.simulator.evaluation import Evaluator

SIZES = (9, 5, 7, 12, 8, 6)


def made(method='virtual', fraction=0.34, **changes):
    settings = make_settings(method=method, unseen_fraction=fraction, **changes)
    return settings, make_dataset(SIZES).keep_out(fraction, settings.seed)


def test_clients_are_kept_out_by_seed_and_nobody_is_lost():
    whole = make_dataset(SIZES)
    parts = [whole.keep_out(0.34, seed) for seed in (0, 0, 1, 2, 3)]
    for part in parts:
        assert len(part.unseen.clients) == 2 and {*part.clients, *part.unseen.clients} == {*whole.clients}
    assert parts[0].unseen.clients == parts[1].unseen.clients
    assert len({part.unseen.clients for part in parts}) > 1
    assert whole.keep_out(0.0, 0) is whole and len(whole.keep_out(0.01, 0).unseen.clients) == 1
    assert len(whole.keep_out(0.9, 0).clients) == 1
    with pytest.raises(DataError, match='has only 1; use 0'):
        whole.part([0]).keep_out(0.5, 0)


def test_a_global_scale_is_that_of_those_who_take_part():
    _, dataset = made()
    scaled = dataset.standardise('global')
    np.testing.assert_allclose(scaled.train.x.mean(axis=0), 0.0, atol=1e-6)
    mean, scale = dataset.train.x.mean(axis=0), dataset.train.x.std(axis=0)
    np.testing.assert_allclose(scaled.unseen.test.x, (dataset.unseen.test.x - mean) / scale, rtol=1e-4, atol=1e-5)
    own = dataset.standardise('client').unseen.train.client(0)[0]
    np.testing.assert_allclose(own.mean(axis=0), 0.0, atol=1e-6)


@pytest.mark.parametrize('method', ['virtual', 'fedavg'])
def test_a_newcomer_s_visit_is_one_from_the_server_with_nothing_contributed(method):
    """The cavity of an empty factor is the posterior, and a visit of E epochs is that of a run with E epochs."""
    settings, dataset = made(method, clients_per_round=2, client_lr=0.5, mean_init='glorot')
    simulation = make_simulation(settings, dataset)
    server, algorithm = simulation.start().server, simulation.algorithm
    found = unseen.measure(simulation, server)
    assert list(found) == [0, 1, 5, 20]
    evaluator = Evaluator(simulation.network, algorithm, dataset.unseen.test, settings)
    assert found[0]['means'] == pytest.approx(evaluator.server(server)['server'].summary(), nan_ok=True)
    rows, numbers, zeros = np.arange(2), np.array([4, 5]), np.zeros(2, np.float32)
    fresh = algorithm.init_clients(server, zeros, np.zeros([2, 2], np.uint32))
    if method == 'virtual':
        assert all(not np.any(value) for value in tf.nest.flatten(fresh.factor))
    for epochs in (1, 20):
        alike = settings.replace(epochs=epochs)
        proposals, _, _ = registry.find(method).make(simulation.network, alike).client_update(
            server, fresh, dataset.unseen.cohort(rows, 0, alike, numbers, zeros, zeros + 1))
        tested = evaluator.clients(fresh._replace(deployed=proposals.deployed), rows)['mt'].summary()
        assert found[epochs]['means']['cross_entropy'] == pytest.approx(tested['cross_entropy'], rel=1e-5)
    assert found[1]['means']['cross_entropy'] != pytest.approx(found[20]['means']['cross_entropy'], rel=1e-3)


@pytest.mark.parametrize('method', [name for name in registry.METHODS if name not in ('virtual', 'fedavg')])
def test_every_method_has_newcomers_and_one_without_a_server_s_model_has_none_before_their_visit(method, monkeypatch):
    monkeypatch.setattr(unseen, 'EPOCHS', (1,))
    settings, dataset = made(method, clients_per_round=2)
    simulation = make_simulation(settings, dataset)
    found = {epochs: ways['means']['accuracy'] for epochs, ways in unseen.measure(
        simulation, simulation.start().server).items()}
    assert np.isfinite(found[1]) and np.isnan(found[0]) == (simulation.algorithm.server_model is None)


def test_groups_and_samples_and_a_second_call_change_nothing_that_they_should_not(tmp_path):
    settings, dataset = made(rounds=1, eval_samples=2)
    summary, _ = driver.run(settings, dataset, tmp_path, progress=False)
    assert list(summary['unseen']) == ['0', '1', '5', '20'] and list(summary['unseen']['5']) == ['means', 'sampled']
    again, _ = driver.run(settings, dataset, tmp_path, progress=False)     # finished: it is read
    assert again['unseen'] == strict_json.finite(summary['unseen'])
    RunFolder(tmp_path).begin(RunFolder(tmp_path).config())                # killed before its summary was written
    ended, _ = driver.run(settings.replace(clients_per_call=1), dataset, tmp_path, progress=False)
    for epochs, ways in summary['unseen'].items():
        for way, values in ways.items():
            assert ended['unseen'][epochs][way] == pytest.approx(values, rel=1e-4, nan_ok=True)
    assert RunFolder(tmp_path).config()['data']['unseen_clients'] == 2


def test_other_clients_kept_out_are_other_data():
    _, dataset = made()
    assert provenance.digest(dataset) != provenance.digest(dataclasses.replace(dataset, unseen=None))
