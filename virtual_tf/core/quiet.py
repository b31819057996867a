"""TensorFlow without what it says of itself: notes while it is imported, and a warning that is wrong here."""
import logging
import os
import sys
import tempfile

# Functions that every run compiles once, for a network of its own. TensorFlow counts the calls of code, so it takes
# the first calls of five short runs for one function that is traced five times.
_ONCE_A_RUN = ('Evaluator._compile', 'client_update')


def import_tensorflow():
    """The libraries write to the file descriptor before logging can be configured; an error is shown with them."""
    logging.getLogger('tensorflow').addFilter(is_worth_saying)
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


def is_worth_saying(record):
    """False for where an export keeps its temporary files, and for the warning of frequent retracing of what is rightly
    compiled once a run; others may be your own.
    """
    message = record.getMessage()
    if message.startswith('Assets written to'):
        return False
    return 'triggered tf.function retracing' not in message or not any(name in message for name in _ONCE_A_RUN)
