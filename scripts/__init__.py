"""Commands: flags, printing and signals. Installed, this package is virtual_tf.commands."""
import os

from virtual_tf.core import quiet

os.environ.setdefault('TF_USE_LEGACY_KERAS', '1')   # TFP's Keras layers, which `bench` compares with
quiet.import_tensorflow()
