"""Federated data sets, by the names that --dataset takes."""
import difflib

from virtual_tf.data import femnist, har, label_skew, mnist, own, shakespeare, synthetic, vsn, watch, writers
from virtual_tf.data.federated import DataError

LOADERS = {'watch': watch.load, 'synthetic': synthetic.load, 'mnist': mnist.load, 'pmnist': mnist.load,
           'femnist': femnist.load, 'writers': writers.load, 'vsn': vsn.load, 'har': har.load, 'hapt': har.load,
           'shakespeare': shakespeare.load}
WITH_MAX_CLIENTS = ('femnist', 'writers', 'shakespeare')     # those that max_clients cuts down
# What follows these is a path.
PREFIXES = {'leaf:': own.load_leaf, 'npz:': own.load_npz}


def loader(name):
    """The function (data_dir, settings) → FederatedDataset of a data set's name."""
    for prefix, load_own in PREFIXES.items():
        if name.startswith(prefix) and name != prefix:
            return load_own
    if name not in LOADERS:
        near = difflib.get_close_matches(name, LOADERS, 1)
        hint = f'did you mean {near[0]!r}? ' if near else ''
        raise DataError(f'dataset {name!r} is unknown; {hint}known are {", ".join(sorted(LOADERS))}, and '
                        f'{", ".join(prefix + "PATH" for prefix in PREFIXES)} for data of your own')
    return LOADERS[name]


def load(data_dir, settings):
    """The FederatedDataset of settings.dataset, with raw files under data_dir."""
    load_named = loader(settings.dataset)
    label_skew.parse(settings.split)     # before a download
    dataset = label_skew.regroup(load_named(data_dir, settings), settings.split, settings.split_clients, settings.seed)
    dataset = dataset.hold_out(settings.validation_fraction, settings.seed)
    return dataset.keep_out(settings.unseen_fraction, settings.seed).standardise(settings.standardize)


def load_alone(data_dir, settings, source):
    """The data set of one client, from a source such as npz:FILE that holds it alone."""
    alone = load(data_dir, settings.replace(dataset=source))
    if len(alone.clients) != 1:
        raise DataError(f'{source} has {len(alone.clients)} clients; give each client a source with its own data alone')
    return alone
