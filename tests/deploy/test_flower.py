"""The Flower app with real processes."""
import dataclasses
import json
import time
import tomllib

import numpy as np
import pytest
import tensorflow as tf
from documented import block, registries  # noqa: F401
from federations import assert_metrics_close, assert_posterior_is_product, final_server
from flower_processes import APP, Local, listeners, started_by

from virtual_tf import data
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import COMMON
from virtual_tf.deploy.options import UNSET, Options, parse
from virtual_tf.methods import registry
from virtual_tf.runs import driver

TINY = {'dataset': 'synthetic', 'synthetic_clients': 2, 'synthetic_max_size': 60, 'epochs': 1, 'compile': 'graph',
        'rounds': 2, 'histogram_every': 0, 'checkpoint_every': 1}


@pytest.fixture
def local(tmp_path):
    with Local(tmp_path) as processes:
        yield processes
    assert processes.left() == []


def simulate(config):
    """(state, history) of the simulator with the settings of a run configuration."""
    _, settings = parse(config)
    simulation = driver.build(settings, data.load('', settings).part(range(config['clients'])))
    state = simulation.start()
    return state, list(simulation.run(state))


def history(folder):
    return [json.loads(line) for line in (folder / 'server' / 'metrics.jsonl').read_text().splitlines()]


def assert_equals_simulator(folder, config):
    state, simulated = simulate(config)
    assert_metrics_close(simulated, history(folder))
    for a, b in zip(tf.nest.flatten(state.server), final_server(folder)):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-4 * np.abs(a).max())


def check_product(folder, config):
    _, settings = parse(config)
    assert_posterior_is_product(settings, data.load('', settings).part(range(config['clients'])), folder / 'server',
                                folder / 'clients', tests_server=config.get('evaluation') != 'clients')


def test_the_app_lists_every_setting_and_option():
    listed = tomllib.loads((APP / 'pyproject.toml').read_text())['tool']['flwr']['app']['config']
    settings = {*COMMON, *registry.own_settings()}
    assert {*listed} == settings | {field.name for field in dataclasses.fields(Options)}
    assert all(listed[name] == UNSET for name in settings)
    assert parse(listed)[0] == Options()


def test_a_run_configuration_becomes_settings():
    options, settings = parse({'clients': 8, 'fraction': 0.5, 'server_lr': 1, 'method': 'fedavg', 'rounds': ''})
    assert (options.clients, settings.clients_per_round, settings.server_lr) == (8, 4, 1.0)
    assert settings.rounds == COMMON['rounds'].default
    with pytest.raises(VirtualTfError, match='rounds must be of type int'):
        parse({'rounds': 'ten'})
    with pytest.raises(VirtualTfError, match="run configuration 'roundz' is unknown; did you mean 'rounds'"):
        parse({'roundz': 3})
    with pytest.raises(VirtualTfError, match=r'kl_weight is a setting of .*virtual.*, not of fedavg'):
        parse({'method': 'fedavg', 'kl_weight': 0.1})


def test_a_plugins_method_and_its_settings_come_with_the_run_configuration(tmp_path, registries):     # noqa: F811
    path = tmp_path / 'my_method.py'
    path.write_text(block('docs/extending.md', '# my_method.py'), encoding='utf-8')
    config = {'plugins': str(path), 'method': 'timid'}
    assert parse(config | {'own_settings': '{"boldness": 0.7}'})[1].boldness == 0.7
    for text, message in (('{boldness: 1}', 'is no JSON'), ('[1]', 'no JSON object'), ('{"bold": 1}', 'boldness')):
        with pytest.raises(VirtualTfError, match=message):
            parse(config | {'own_settings': text})


def test_nothing_survives_that_made_a_session_of_its_own(local):
    orphan = 'import subprocess, sys; subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"], ' \
             'start_new_session=True)'
    parent = local.start('parent', 'python', '-c', orphan)
    parent.wait(60)
    assert len(started_by(parent)) == 1
    local.kill(parent)
    assert local.left() == []


def test_processes_on_loopback_give_the_simulators_numbers(local):
    config = TINY | {'clients': 2, 'private': 'none'}
    processes = [local.superlink(), *(local.supernode(i) for i in range(2))]
    run = local.run(**config)
    local.finish(run, 600)
    assert listeners(processes) <= {'0100007F'}     # 127.0.0.1
    assert_equals_simulator(local.folder, config)
    check_product(local.folder, config)


@pytest.mark.slow
@pytest.mark.parametrize('method', [{'private': 'residual'}, {'method': 'fedavg'}], ids=['residual', 'fedavg'])
def test_three_rounds_on_processes_equal_the_simulator(local, method):
    config = TINY | {'clients': 4, 'synthetic_clients': 4, 'clients_per_round': 3, 'rounds': 3} | method
    local.superlink()
    for i in range(4):
        local.supernode(i)
    local.finish(local.run(**config), 900)
    assert_equals_simulator(local.folder, config)


@pytest.mark.slow
@pytest.mark.parametrize('method', [{'private': 'residual'}, {'private': 'none'}, {'method': 'fedavg'}],
                         ids=['residual', 'none', 'fedavg'])
def test_three_rounds_on_the_simulation_engine_equal_the_simulator(local, method):
    config = TINY | {'clients': 4, 'synthetic_clients': 4, 'clients_per_round': 3, 'rounds': 3} | method
    local.superlink('--insecure', '--simulation')
    local.finish(local.run(more=('--federation-config', 'num-supernodes=4'), **config), 900)
    assert_equals_simulator(local.folder, config)
    if 'private' in method:
        check_product(local.folder, config)


def write_npz(path, part):
    examples = [part.train.client(0), part.test.client(0)]
    x, y = (np.concatenate(arrays) for arrays in zip(*examples))
    test = np.arange(len(y)) >= len(examples[0][1])
    np.savez(path, x=x, y=y, client=np.full(len(y), 'mine'), test=test, num_classes=part.num_classes)
    return f'npz:{path}'


def write_leaf(path, part):
    for name, split in (('train', part.train), ('test', part.test)):
        x, y = split.client(0)
        (path / name).mkdir(parents=True)
        (path / name / 'mine.json').write_text(json.dumps({
            'users': ['mine'], 'num_samples': [len(y)],
            'user_data': {'mine': {'x': x.tolist(), 'y': y.tolist()}}}))
    return f'leaf:{path}'


@pytest.mark.slow
def test_clients_with_files_of_their_own(local, tmp_path):
    """The server has no data at all: the posterior is that of a simulation that has all of it."""
    config = TINY | {'clients': 2, 'evaluation': 'clients', 'private': 'residual'}
    _, settings = parse(config)
    whole = data.load('', settings)
    sources = [write_npz(tmp_path / 'mine.npz', whole.part([0])), write_leaf(tmp_path / 'mine', whole.part([1]))]
    local.superlink()
    for i, source in enumerate(sources):
        local.supernode(i, data=source)
    local.finish(local.run(**config), 600)
    state, simulated = simulate(config)
    for a, b in zip(tf.nest.flatten(state.server), final_server(local.folder)):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-4 * np.abs(a).max())
    # A round's clients test what they were sent: the posterior of the round before.
    _, second = history(local.folder)
    assert second['server/accuracy'] == pytest.approx(simulated[0]['server/accuracy'])
    assert second['mt/accuracy'] == pytest.approx(simulated[1]['mt/accuracy'])
    check_product(local.folder, config)


@pytest.mark.slow
def test_a_supernode_without_a_known_key_is_refused(local):
    """Client 0 has a registered key, client 1 another; over TLS."""
    keys = local.make_keys(2)
    local.superlink(keys=keys)
    local.register(0, keys)
    nodes = [local.supernode(i, '--root-certificates', keys / 'ca.crt', '--auth-supernode-private-key',
                             keys / f'client-{i}.key') for i in range(2)]
    bare = local.supernode(2, '--root-certificates', keys / 'ca.crt')
    for stranger in (nodes[1], bare):
        assert stranger.wait(120) != 0
    config = TINY | {'clients': 1, 'synthetic_clients': 2, 'rounds': 1}
    local.finish(local.run(**config), 600)
    assert_equals_simulator(local.folder, config)


@pytest.mark.slow
def test_secure_aggregation_gives_the_simulators_numbers_to_its_steps(local):
    config = TINY | {'clients': 3, 'synthetic_clients': 3, 'rounds': 2, 'private': 'none', 'secure': True}
    local.superlink()
    for i in range(3):
        local.supernode(i)
    local.finish(local.run(**config), 900)
    rows = history(local.folder)
    assert [row['clipped_values'] for row in rows] == [0, 0]
    state, simulated = simulate(config)
    for row, expected in zip(rows, simulated):
        np.testing.assert_allclose(row['server/cross_entropy'], expected['server/cross_entropy'], rtol=1e-3)
    for a, b in zip(tf.nest.flatten(state.server), final_server(local.folder)):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-3, atol=1e-3 * np.abs(a).max())
    check_product(local.folder, config)


def faulty_app(folder):
    folder.mkdir()
    (folder / 'pyproject.toml').write_text((APP / 'pyproject.toml').read_text().replace(
        'virtual_tf.deploy.client_app:app', 'faulty_client:app'))
    return folder


def kill_while_it_trains(local, run, supernode, marker):
    while not marker.exists():
        assert run.poll() is None, local.log('run')
        time.sleep(0.2)
    local.kill(supernode)


@pytest.mark.slow
def test_secure_aggregation_without_a_client_that_is_killed_while_it_trains(local, tmp_path):
    """Of the others the masks come off all the same, and it takes part again."""
    config = TINY | {'clients': 4, 'synthetic_clients': 4, 'rounds': 4, 'private': 'residual', 'round_timeout': 90,
                     'secure': True}
    marker = tmp_path / 'training'
    local.superlink()
    killed = local.supernode(0, fault='pause', fault_round=2, marker=marker)
    for i in range(1, 4):
        local.supernode(i)
    run = local.run(faulty_app(tmp_path / 'app'), **config)
    kill_while_it_trains(local, run, killed, marker)
    local.supernode(0)
    local.finish(run, 1800)
    lost = [row['failed_clients'] + row['late_clients'] for row in history(tmp_path)]
    assert len(lost) == 4 and lost[0] == 0 and lost[1] == 1 and lost[3] == 0
    check_product(tmp_path, config)


@pytest.mark.slow
def test_faults_of_four_clients(local, tmp_path):
    """One is killed while it trains and comes back, one sends NaN, one a wrong shape, one is late."""
    config = TINY | {'clients': 4, 'synthetic_clients': 4, 'rounds': 5, 'private': 'residual', 'round_timeout': 120}
    marker = tmp_path / 'training'
    local.superlink()
    killed = local.supernode(0, fault='pause', fault_round=2, marker=marker)
    local.supernode(1, fault='nan', fault_round=2)
    local.supernode(2, fault='shape', fault_round=3)
    local.supernode(3, fault='slow', fault_round=4, seconds=150)
    run = local.run(faulty_app(tmp_path / 'app'), **config)
    kill_while_it_trains(local, run, killed, marker)
    local.supernode(0, fault='pause', fault_round=2, marker=marker)
    local.finish(run, 1800)
    rows = history(tmp_path)
    assert len(rows) == 5
    assert [row['refused_clients'] for row in rows] == [0, 1, 1, 0, 0]
    assert rows[1]['failed_clients'] + rows[1]['late_clients'] == 1
    assert rows[3]['late_clients'] == 1
    log = (tmp_path / 'run.log').read_text()
    assert 'not finite' in log and 'another network' in log and 'client 3' in log
    check_product(tmp_path, config)
