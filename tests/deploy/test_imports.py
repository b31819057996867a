"""What a message makes a process import: Flower starts one for each."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def modules_of(code):
    done = subprocess.run([sys.executable, '-c', f'{code}\nimport sys\nprint(*sys.modules)'], cwd=ROOT, text=True,
                          capture_output=True, check=True)
    return {*done.stdout.split()}


def test_a_client_that_trains_needs_no_pictures_studies_or_driver():
    found = modules_of('import virtual_tf.deploy.client, virtual_tf.deploy.fleet, virtual_tf.deploy.secure')
    assert not [name for name in found if name.startswith(('virtual_tf.runs', 'virtual_tf.studies', 'virtual_tf.report',
                                                           'matplotlib.pyplot', 'tensorflow_datasets'))]


def test_a_message_of_secure_aggregation_needs_no_tensorflow():
    assert 'tensorflow' not in modules_of('import virtual_tf.deploy.client_app, virtual_tf.deploy.server_app')
