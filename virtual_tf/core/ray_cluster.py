"""A Ray cluster: how to come to one and what it has to offer; a refusal is one sentence, before anything starts."""
import contextlib
import importlib
import os
import socket
import time

from virtual_tf.core.errors import VirtualTfError

_PATIENCE = 10.0     # seconds in which the cores of a program that has just ended become free


@contextlib.contextmanager
def connected(address=None, cores=None):
    """The module ray with a cluster: at the address, or that which the program has, or a new one of so many cores.

    One that the program had before stays; from others it is disconnected at the end.
    """
    try:
        ray = importlib.import_module('ray')
    except ImportError:
        raise VirtualTfError('engine=ray needs Ray; install requirements-flower.txt of the repository') from None
    if address:
        check_reachable(address)
    if ray.is_initialized():
        yield ray
        return
    os.environ.setdefault('RAY_USAGE_STATS_ENABLED', '0')
    os.environ.setdefault('RAY_worker_niceness', '0')     # the runs are what the machine is for
    os.environ.setdefault('RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO', '0')     # else it warns of what is to come
    try:
        ray.init(address=address, num_cpus=None if address else cores, include_dashboard=False, log_to_driver=False,
                 configure_logging=False)
    except ConnectionError as error:
        raise no_cluster(address, error) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def check_reachable(address):
    """Refuses HOST:PORT where nobody listens; Ray itself would try for minutes."""
    host, _, port = address.removeprefix('ray://').rpartition(':')
    try:
        if host:     # else a word such as auto
            socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError) as error:
        raise no_cluster(address, error) from None


def no_cluster(address, error):
    said = str(error).partition('\n')[0]
    return VirtualTfError(f'no Ray cluster answers at ray_address = {address} ({said}); ray start --head prints the '
                          'address of the one that it starts')


def shares(machines, workers=0, cores=0):
    """(workers, cores of each) on machines with so many cores each.

    Without a number there is a worker on each machine, and each has as many cores as all can have.
    """
    machines = [int(count) for count in machines if count >= 1]
    workers = workers or max(1, len(machines))

    def room(each):
        return sum(count // each for count in machines)

    most = next((each for each in range(max(machines, default=0), 0, -1) if room(each) >= workers), 0)
    if not most or (cores and room(cores) < workers):
        there = ' + '.join(map(str, machines)) or 'no'
        raise VirtualTfError(f'workers = {workers} with {cores or 1} core{"s" * (cores > 1)} each do not fit: the Ray '
                             f'cluster has {there} cores; use fewer --workers' + (' or --threads' if cores > 1 else ''))
    return workers, cores or most


def check_free(ray, resource, needed):
    """Refuses a cluster of whose cores ('CPU') or GPUs others hold too many."""
    deadline = time.monotonic() + _PATIENCE
    while (free := ray.available_resources().get(resource, 0.0)) < needed:
        if time.monotonic() > deadline or ray.cluster_resources().get(resource, 0.0) < needed:
            total = ray.cluster_resources().get(resource, 0.0)
            raise VirtualTfError(f'{needed:g} {resource}s are asked for, and of the {total:g} of the Ray cluster '
                                 f'{free:g} are free; use fewer --workers, or wait until others have ended')
        time.sleep(0.2)


def cores_of_machines(ray):
    """Number of cores of each machine of the cluster."""
    return [node['Resources'].get('CPU', 0.0) for node in ray.nodes() if node['Alive']]
