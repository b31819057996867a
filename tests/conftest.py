"""Settings of the test process, before the first import of TensorFlow, and how two workers share the tests."""
import os

import pytest

WORKERS = 2     # of 2 GB each
# Files of these start processes or train a lot. They go first, so that no worker is left with a long one at the end.
LONG = ('studies', 'scripts', 'runs', 'test_front_door.py', 'methods', 'deploy', 'networks', 'simulator')

# tfp.layers, which our layers are held against, are layers of Keras 2.
os.environ.setdefault('TF_USE_LEGACY_KERAS', '1')
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
if 'PYTEST_XDIST_WORKER' in os.environ:
    # A core for each worker and for what it starts.
    for _name in ('TF_NUM_INTRAOP_THREADS', 'TF_NUM_INTEROP_THREADS', 'OMP_NUM_THREADS'):
        os.environ.setdefault(_name, '1')


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Workers of `-n auto`: none where slow tests may run, which measure time and start a dozen processes."""
    return WORKERS if 'not slow' in config.option.markexpr else 0


def pytest_collection_modifyitems(items):
    if 'PYTEST_XDIST_WORKER' in os.environ:
        items.sort(key=_turn)


def _turn(item):
    room = item.nodeid.split('::')[0].split('/')[1]
    return LONG.index(room) if room in LONG else len(LONG)
