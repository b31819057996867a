"""Commands. TensorFlow is imported here first, without the notes that its libraries write to stderr meanwhile."""
import os
import sys
import tempfile

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('TF_USE_LEGACY_KERAS', '1')   # TFP's Keras layers, which scripts.bench compares with


def _import_tensorflow_quietly():
    """The libraries write to the file descriptor before logging can be configured; an error is shown with them."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as notes:
        os.dup2(notes.fileno(), 2)
        try:
            import tensorflow  # noqa: F401
        except BaseException:
            notes.seek(0)
            os.write(kept, notes.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


_import_tensorflow_quietly()
