"""What the library logs, in the streams that Flower gathers."""
import logging as standard

from absl import logging


def to_stderr():
    """absl's messages as they are, and none of other libraries: its own handler would show all of those too."""
    logger = logging.get_absl_logger()
    handler = standard.StreamHandler()
    handler.setFormatter(standard.Formatter('%(levelname)s %(asctime)s %(message)s'))
    logger.handlers, logger.propagate = [handler], False
    logging.set_verbosity(logging.INFO)
    # With a handler of its own, however silent, the root gets none that repeats all that Flower says.
    standard.getLogger().addHandler(standard.NullHandler())
