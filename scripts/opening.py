"""What the commands on finished runs share."""
from absl import flags

from virtual_tf.core import plugins
from virtual_tf.data.download import DATA_DIR
from virtual_tf.runs.opened import open_run

from . import entry


def define_flags(most=1):
    """RUN, and where to look for what it needs."""
    entry.takes('RUN', most)
    flags.DEFINE_string('data_dir', DATA_DIR, 'root with one folder of raw files a data set')
    flags.DEFINE_list('plugins', [], 'Python files that the run was played with')


def open_all(arguments):
    """The runs whose folders were given."""
    plugins.load_all(','.join(flags.FLAGS.plugins))
    return [open_run(folder, flags.FLAGS.data_dir) for folder in arguments[1:]]
