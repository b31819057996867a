"""Where the clients of a run's rounds are computed; no part of what the run is: another may continue it."""
import contextlib
import functools

from virtual_tf.simulator import ray_pool
from virtual_tf.simulator.ray_engine import RaySimulation
from virtual_tf.simulator.rounds import Simulation

ENGINES = ('local', 'ray')


@contextlib.contextmanager
def opened(name, folder, address=None, workers=0, cores=0, gpus=0.0):
    """What driver.run takes as `make`: in this process, or over workers on Ray that see the folder of all runs."""
    if name == 'local':
        yield Simulation
        return
    with ray_pool.opened(folder, address, workers, cores, gpus) as pool:
        yield functools.partial(RaySimulation, pool=pool)
