"""Federated data sets, by the names that --dataset takes."""
from virtual_tf.data import mnist, synthetic, watch

LOADERS = {'watch': watch.load, 'synthetic': synthetic.load, 'mnist': mnist.load, 'pmnist': mnist.load}


def load(data_dir, settings):
    """The FederatedDataset of settings.dataset, with raw files under data_dir."""
    return LOADERS[settings.dataset](data_dir, settings).hold_out(settings.validation_fraction, settings.seed)
