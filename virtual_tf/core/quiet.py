"""TensorFlow without the notes that its libraries write to stderr while they are imported."""
import os
import sys
import tempfile


def import_tensorflow():
    """The libraries write to the file descriptor before logging can be configured; an error is shown with them."""
    if 'tensorflow' in sys.modules:
        return
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
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
