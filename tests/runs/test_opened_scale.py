"""One among 10,000 clients, in a process of its own: what is opened costs what one client costs."""
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from documented import ROOT
from toys import make_settings

from virtual_tf.core import safe_files
from virtual_tf.data.federated import FederatedDataset, Split
from virtual_tf.runs import driver
from virtual_tf.runs.folder import RunFolder
from virtual_tf.simulator import checkpoints

CLIENTS, FEATURES = 10_000, 48

PROBE = '''
import json, resource, sys, time
import numpy as np
import virtual_tf as vt
vt.open_run, vt.gaussian                # imports TensorFlow and all of the package
import tensorflow as tf
tf.function(lambda x: x + 1.0)(tf.zeros([1]))
def megabytes():
    return int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize() / 1e6
before, started = megabytes(), time.perf_counter()
client = vt.open_run(sys.argv[1]).client(sys.argv[2])
opened = time.perf_counter() - started
client.predict(np.zeros([1, 48], np.float32))
print(json.dumps({'seconds': opened, 'first_prediction': time.perf_counter() - started - opened,
                  'megabytes': megabytes() - before, 'trained': client.trained}))
'''


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """A run whose checkpoint names all clients, of which one round's have files."""
    path = tmp_path_factory.mktemp('many') / 'run'
    generator = np.random.default_rng(0)
    split = Split(generator.normal(size=(2 * CLIENTS, FEATURES)).astype(np.float32),
                  generator.integers(7, size=2 * CLIENTS).astype(np.int32), 2 * np.arange(CLIENTS + 1))
    dataset = FederatedDataset('many', tuple(f'client {i}' for i in range(CLIENTS)), split, split, 7)
    driver.run(make_settings(rounds=1, epochs=1, private='joint'), dataset, path, progress=False)
    points = RunFolder(path).checkpoints
    found = points.peek()
    everybody = found._replace(manifest={i: 1 for i in range(CLIENTS)} | found.manifest)
    with open(path / 'checkpoints' / 'round-000001.ckpt', 'wb') as file:
        safe_files.write_record(file, *checkpoints._encode(everybody))
    return path, f'client {next(iter(found.manifest))}'


@pytest.mark.slow
def test_one_among_ten_thousand_takes_less_than_a_second_and_100_megabytes(folder):
    path, name = folder
    done = subprocess.run([sys.executable, '-c', PROBE, path, name], capture_output=True, text=True,
                          env=os.environ | {'PYTHONPATH': str(ROOT)})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found['trained'] and found['seconds'] < 1.0 and found['megabytes'] < 100, found
