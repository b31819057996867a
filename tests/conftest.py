"""Settings of the test process; must come before the first import of TensorFlow."""
import os

# tfp.layers, which our layers are held against, are layers of Keras 2.
os.environ.setdefault('TF_USE_LEGACY_KERAS', '1')
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
