import socket
import sys
import types

import pytest

from virtual_tf.core import ray_cluster
from virtual_tf.core.errors import VirtualTfError


@pytest.mark.parametrize('machines, workers, cores, found', [
    ([4], 0, 0, (1, 4)),           # a worker a machine, with all of it
    ([4, 4, 2], 0, 0, (3, 2)),     # with as many cores each as the smallest has
    ([4], 2, 0, (2, 2)), ([4], 3, 0, (3, 1)),
    ([2, 6], 2, 0, (2, 3)),        # both on the larger: 8/2 = 4 would have room only once
    ([4], 2, 1, (2, 1)), ([8, 0.5], 0, 0, (1, 8))])
def test_workers_and_cores_are_as_many_as_fit(machines, workers, cores, found):
    assert ray_cluster.shares(machines, workers, cores) == found


@pytest.mark.parametrize('machines, workers, cores, said', [
    ([2], 3, 0, 'workers = 3 with 1 core each do not fit: the Ray cluster has 2 cores; use fewer --workers$'),
    ([2, 2], 2, 3, 'workers = 2 with 3 cores each .* has 2 \\+ 2 cores; use fewer --workers or --threads$'),
    ([0], 1, 0, 'has no cores')])
def test_more_cores_than_there_are_is_one_sentence(machines, workers, cores, said):
    with pytest.raises(VirtualTfError, match=said):
        ray_cluster.shares(machines, workers, cores)


def test_cores_that_others_hold_are_one_sentence(monkeypatch):
    monkeypatch.setattr(ray_cluster, '_PATIENCE', 0.0)
    held = types.SimpleNamespace(available_resources=lambda: {'CPU': 1.0}, cluster_resources=lambda: {'CPU': 4.0})
    ray_cluster.check_free(held, 'CPU', 1)
    with pytest.raises(VirtualTfError, match='2 CPUs are asked for, and of the 4 of the Ray cluster 1 are free'):
        ray_cluster.check_free(held, 'CPU', 2)
    with pytest.raises(VirtualTfError, match='1 GPUs are asked for, and of the 0'):
        ray_cluster.check_free(held, 'GPU', 1.0)


def test_a_cluster_that_does_not_answer_is_one_sentence():
    with socket.socket() as unused:
        unused.bind(('127.0.0.1', 0))      # nobody listens
        address = f'127.0.0.1:{unused.getsockname()[1]}'
        with pytest.raises(VirtualTfError, match=f'no Ray cluster answers at ray_address = {address}'):
            ray_cluster.check_reachable(address)
    with pytest.raises(VirtualTfError, match='ray_address = nowhere:port'):
        ray_cluster.check_reachable('nowhere:port')


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, 'ray', None)
    with pytest.raises(VirtualTfError, match=r'install requirements-flower\.txt'), ray_cluster.connected():
        pass
