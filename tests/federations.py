"""A federation in one process, and what is checked of any federation, also one of many processes."""
import pathlib
import shutil
import tempfile

import numpy as np

from virtual_tf.deploy import client_data
from virtual_tf.deploy.client import Client
from virtual_tf.deploy.messages import Failure
from virtual_tf.deploy.server import Federation
from virtual_tf.runs import driver
from virtual_tf.simulator.checkpoints import Checkpoints


class LocalFleet:
    """Clients that are function calls; `faults(client, instruction, answer)` may do anything in place of answer()."""

    def __init__(self, dataset, folder, faults=lambda client, instruction, answer: answer()):
        self._parts = [dataset.part([i]) for i in range(len(dataset.clients))]
        self.introductions = {i: client_data.introduce(i, part) for i, part in enumerate(self._parts)}
        self._folder, self._faults = folder, faults

    def client(self, i, instruction):
        return Client(i, self._parts[i], self._folder / str(i), instruction)

    def exchange(self, instructions):
        return {i: self._faults(i, instruction, lambda i=i, instruction=instruction: self.client(
            i, instruction).answer()) for i, instruction in instructions.items()}


def deploy(settings, dataset, folder, fleet=None, tests_server=True, norm_bound=1e6, **options):
    fleet = fleet or LocalFleet(dataset, folder / 'clients')
    seen = dataset if tests_server else client_data.elsewhere(dataset.name, fleet.introductions.values())
    return driver.run(
        settings, seen, folder / 'server', progress=False, **options,
        make=lambda *parts: Federation(*parts, fleet, norm_bound, tests_server))


def final_server(folder):
    return Checkpoints(folder / 'server' / 'checkpoints').newest().server


def assert_metrics_close(first, second, skip=('bytes_down',)):
    assert len(first) == len(second)
    for a, b in zip(first, second):
        assert {*a} <= {*b}
        for key in {key for key in a if not key.startswith('seconds')} - {*skip}:
            # These are differences of probabilities, as good as those are.
            atol = 2e-4 if '/ece' in key or '/brier' in key else 1e-6
            np.testing.assert_allclose(a[key], b[key], rtol=1e-4, atol=atol, err_msg=key)


def assert_posterior_is_product(settings, dataset, server_folder, clients_folder, tolerance=2e-5, tests_server=True):
    """Reads the newest checkpoint and every client's folder, in a copy: posterior = Π factors."""
    with tempfile.TemporaryDirectory() as copy:
        copy = pathlib.Path(copy)
        shutil.copytree(server_folder / 'checkpoints', copy / 'checkpoints')
        shutil.copytree(clients_folder, copy / 'clients')
        assert_product(*factors(settings, dataset, copy / 'checkpoints', copy / 'clients', tests_server), tolerance)


def factors(settings, dataset, checkpoints, clients_folder, tests_server=True):
    """(posterior, factors of all clients as each has them once it is told of all that the server has applied)."""
    told = {}
    fleet = LocalFleet(dataset, clients_folder,
                       lambda client, instruction, answer: told.setdefault(client, instruction) and Failure('late', ''))
    federation = driver.build(settings, dataset, lambda *parts: Federation(*parts, fleet, 1e6, tests_server))
    federation.cohort_ids = lambda number: np.arange(len(dataset.clients))
    points = Checkpoints(checkpoints)
    found = points.newest()
    state = federation.start(points.clients_folder)
    points.restore(state, found)
    federation.play_round(state)
    return state.server, {i: agreed_state(fleet.client(i, instruction)).factor for i, instruction in told.items()}


def agreed_state(client):
    states = []
    client._train = lambda server, state, cohort: states.append(state) or (False, ({}, []))
    client.answer()
    return states[0]


def assert_product(server, parts, tolerance):
    for name, posterior in server.items():
        for kind, total in enumerate(posterior):
            stacked = np.concatenate([np.asarray(part[name][kind]) for part in parts.values()])
            largest = np.maximum(np.abs(total), np.abs(stacked).sum(axis=0))
            assert np.all(np.abs(stacked.sum(axis=0, dtype=np.float64) - total) <= tolerance * largest)
