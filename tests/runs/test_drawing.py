import os
import subprocess
import sys

import pytest
from documented import ROOT

CODE = 'import virtual_tf.runs.drawing, matplotlib; print(matplotlib.get_backend())'


@pytest.mark.parametrize('before, chosen, backend', [
    ('', {}, 'agg'), ('', {'MPLBACKEND': 'svg'}, 'svg'),
    ('import matplotlib; matplotlib.use("svg"); import matplotlib.pyplot; ', {}, 'svg')])
def test_pictures_open_no_window_and_leave_a_notebooks_choice_alone(before, chosen, backend):
    environment = {name: value for name, value in os.environ.items() if name != 'MPLBACKEND'}
    done = subprocess.run([sys.executable, '-c', before + CODE], cwd=ROOT, capture_output=True, text=True,
                          env=environment | chosen)
    assert done.stdout.strip().lower() == backend, done.stderr
