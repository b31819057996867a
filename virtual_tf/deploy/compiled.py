"""What XLA has compiled, kept from one message to the next: Flower starts a process for each of them.

TensorFlow reads its flags when it is imported, so this comes before. It writes a file whole or not at all, but one that
a failing disk has damaged would stop the client for ever: after an error, what is kept goes.
"""
import contextlib
import os
import pathlib
import shutil

FLAG = '--tf_xla_persistent_cache_directory'


@contextlib.contextmanager
def kept(folder):
    """Compiled code comes from and goes to this folder, unless the user's own flags name another."""
    flags = os.environ.get('TF_XLA_FLAGS', '')
    if FLAG not in flags:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        os.environ['TF_XLA_FLAGS'] = f'{flags} {FLAG}={folder}'.strip()
    import tensorflow as tf
    try:
        yield
    except tf.errors.OpError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
