"""In processes of their own: TensorFlow reads its flags once."""
import os
import subprocess
import sys

PROGRAM = """
import sys
from virtual_tf.deploy import compiled
with compiled.kept(sys.argv[1]):
    import tensorflow as tf
    print(float(tf.function(lambda x: tf.reduce_sum(tf.sin(x) * x), jit_compile=True)(tf.range(5.0))))
"""


def play(folder, **more):
    environment = os.environ | {'TF_CPP_MIN_LOG_LEVEL': '3'} | more
    return subprocess.run([sys.executable, '-c', PROGRAM, folder], env=environment, capture_output=True, text=True)


def test_compiled_code_is_kept_used_again_and_given_up_when_it_is_damaged(tmp_path):
    folder = tmp_path / 'compiled'
    first = play(folder)
    assert first.returncode == 0, first.stderr
    file, = folder.iterdir()
    written = file.stat().st_mtime_ns
    assert play(folder).stdout == first.stdout and file.stat().st_mtime_ns == written
    file.write_bytes(file.read_bytes()[:100])
    assert play(folder).returncode != 0 and not folder.exists()
    assert play(folder).stdout == first.stdout


def test_a_folder_of_the_user_s_comes_first(tmp_path):
    assert play(tmp_path / 'ours', TF_XLA_FLAGS=f'--tf_xla_persistent_cache_directory={tmp_path}/own').returncode == 0
    assert [*(tmp_path / 'own').iterdir()] and not (tmp_path / 'ours').exists()
