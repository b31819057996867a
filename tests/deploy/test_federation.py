"""The server and the clients of a deployment in one process, against the simulator."""
import functools
import json

import numpy as np
import pytest
import tensorflow as tf
import toys
from federations import LocalFleet, assert_metrics_close, assert_posterior_is_product, deploy, final_server

from virtual_tf.core import encoding
from virtual_tf.deploy import messages
from virtual_tf.deploy.messages import Failure
from virtual_tf.methods import registry
from virtual_tf.runs import driver
from virtual_tf.simulator import metrics

METHODS = {'residual': {'private': 'residual', 'private_scale': 0.02},
           'pruned': {'private': 'none', 'prune': 50, 'error_feedback': True, 'values': 'float16'},
           'natural': {'precision_update': 'natural', 'private': 'after', 'gate_prior': 0.1, 'private_scale': 0.02,
                       'mt_model': 'tuned', 'fine_tune': 2, 'delta_weighting': 'size', 'server_decay': 2.0,
                       'backtracking': True, 'max_gradient_norm': 0.5},
           'fedavg': {'method': 'fedavg', 'server_lr': 1.0, 'fine_tune': 2, 'server_decay': 2.0}}


@pytest.fixture(autouse=True)
def small_network(monkeypatch):
    """registry.build with the toys' network; the settings say how it is compiled."""
    @functools.cache     # a client is made anew for each message, but a test need not trace anew
    def build(settings):
        network = toys.make_network()
        return network, registry.find(settings.method).make(network, settings), settings
    monkeypatch.setattr(registry, 'build', lambda settings, dataset: build(settings))


@pytest.mark.parametrize('name', METHODS)
def test_a_federation_gives_the_simulators_numbers(name, tmp_path):
    dataset = toys.make_dataset(validation=0.25)
    settings = toys.make_settings(rounds=3, clients_per_round=3, **METHODS[name])
    _, simulated, history = toys.play(settings, dataset)
    _, deployed = deploy(settings, dataset, tmp_path)
    assert_metrics_close(history, deployed)
    expected = [np.asarray(leaf) for leaf in tf.nest.flatten(simulated.server)]
    for a, b in zip(expected, final_server(tmp_path)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(a).max())


def test_posterior_is_the_product_of_factors_whatever_goes_wrong(tmp_path):
    dataset, generator = toys.make_dataset(), np.random.default_rng(0)
    settings = toys.make_settings(rounds=8, clients_per_round=3, checkpoint_every=1, private='residual',
                                  private_scale=0.02, damping=1.0, server_lr=0.9)
    earlier = {}

    def faults(client, instruction, answer):
        match generator.integers(7):
            case 0:
                return Failure('late', 'lost on its way down')
            case 1:
                answer()
                return Failure('late', 'lost on its way up')
            case 2:
                return answer()._replace(delta=b'nonsense')
            case 3:
                return earlier.get(client, Failure('late', 'nothing yet'))
            case 4:
                answer()
                return answer()
        earlier[client] = answer()
        return earlier[client]

    fleet = LocalFleet(dataset, tmp_path / 'clients', faults)
    _, history = deploy(settings, dataset, tmp_path, fleet)
    assert sum(row['late_clients'] for row in history) and sum(row['refused_clients'] for row in history)
    assert any(row['shrunk_precisions'] for row in history)
    assert_posterior_is_product(settings, dataset, tmp_path / 'server', tmp_path / 'clients')
    # One checkpoint is lost: the server goes back, the clients with it.
    newest = sorted((tmp_path / 'server' / 'checkpoints').glob('round-*.ckpt'))[-1]
    newest.write_bytes(b'damaged')
    assert_posterior_is_product(settings, dataset, tmp_path / 'server', tmp_path / 'clients')


def test_a_run_that_is_continued_gives_the_same_numbers(tmp_path):
    dataset, settings = toys.make_dataset(), toys.make_settings(rounds=3, checkpoint_every=1, private='none')
    _, whole = deploy(settings, dataset, tmp_path / 'whole')
    deploy(settings.replace(rounds=2), dataset, tmp_path / 'parts')
    _, parts = deploy(settings, dataset, tmp_path / 'parts')
    assert_metrics_close(whole, parts)
    for a, b in zip(final_server(tmp_path / 'whole'), final_server(tmp_path / 'parts')):
        np.testing.assert_array_equal(a, b)


def test_without_data_at_the_server_clients_measure_what_they_were_sent(tmp_path):
    dataset = toys.make_dataset()
    settings = toys.make_settings(rounds=2, clients_per_round=4, prior_weighting='size')
    _, here = deploy(settings, dataset, tmp_path / 'here')
    _, there = deploy(settings, dataset, tmp_path / 'there', tests_server=False)
    # All clients were asked, so the second round's S is that of the first round's posterior.
    np.testing.assert_allclose(there[1]['server/cross_entropy'], here[0]['server/cross_entropy'], rtol=1e-5)
    assert_metrics_close(here, there, ('server/accuracy', 'server/cross_entropy', 'server/accuracy_std'))


def test_the_simulator_refuses_to_continue_a_federation(tmp_path):
    dataset, settings = toys.make_dataset(), toys.make_settings(rounds=1)
    deploy(settings, dataset, tmp_path)
    with pytest.raises(driver.VirtualTfError, match='flower'):
        driver.run(settings, dataset, tmp_path / 'server', progress=False)


def test_nobody_answering_changes_nothing(tmp_path):
    dataset, settings = toys.make_dataset(), toys.make_settings(rounds=1)
    fleet = LocalFleet(dataset, tmp_path / 'clients', lambda *_: Failure('failed', 'switched off'))
    _, history = deploy(settings, dataset, tmp_path, fleet)
    assert history[0]['failed_clients'] == 2 and np.isnan(history[0]['train/loss'])
    initial = tf.nest.flatten(toys.make_simulation(settings, dataset).algorithm.init(settings.seed))
    for a, b in zip(initial, final_server(tmp_path)):
        np.testing.assert_array_equal(a, b)


def test_a_private_weight_never_travels(tmp_path):
    dataset = toys.make_dataset()
    settings = toys.make_settings(rounds=1, private='residual', private_scale=0.02)
    replies = []
    fleet = LocalFleet(dataset, tmp_path / 'clients', lambda i, _, answer: replies.append(answer()) or replies[-1])
    deploy(settings, dataset, tmp_path, fleet)
    simulation = toys.make_simulation(settings, dataset)
    server = simulation.algorithm.init(settings.seed)
    for reply in replies:
        assert tf.nest.flatten(encoding.decode(reply.delta, server))     # the shared structure and nothing beside it
        assert {*reply.report} == {'loss', 'accuracy', 'details', 'scores'}
        # sums of metrics, in their shapes, and little beside them
        assert {*reply.report['scores']} == {'mt'}
        assert {name: np.shape(sums) for name, sums in reply.report['scores']['mt'].items()} == metrics.shapes(2)
        assert len(json.dumps(reply.report | {'scores': {}})) < 1000
    assert messages.relative_norm(server, server) == 1.0     # a delta as large as the state itself
