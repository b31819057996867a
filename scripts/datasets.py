"""Prints the paper's Table 1 beside what is loaded here, and draws the clients' sizes and label mixes.

    python -m scripts.datasets --data_dir=DATA
"""
import pathlib

import numpy as np
from absl import flags

from scripts import entry
from virtual_tf import data
from virtual_tf.core import safe_files
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import make_settings
from virtual_tf.data.download import DATA_DIR
from virtual_tf.data.federated import DataError
from virtual_tf.report import data_pictures
from virtual_tf.studies import paper

# Where ours differs from the paper's row for reasons that are not in the files' own caveat.
NOTES = {
    'femnist': 'about 100 training digits a writer in the published files, against 550 in the paper',
    'writers': 'not in the paper: the closest real thing to its handwriting data that is small',
    'vsn': 'the paper has 68k examples of 23 sensors',
    'har': '6 activities and 10,299 windows in all, against 12 and 15k in the paper',
    'hapt': '12 activities as in the paper, 10,929 windows as UCI publishes them, against 15k',
    'shakespeare': 'sizes are characters',
    'watch': 'not in the paper: comes with this package',
    'synthetic': 'not in the paper: generated from the seed',
}
_HEAD = (f'{"":14}{"paper":^32}{"here, train":^34}{"here, train + test":^32}\n'
         f'{"data set":14}{"K":>5}{"size":>11}{"mean":>8}{"std":>8}{"K":>7}{"size":>11}{"mean":>8}{"std":>8}'
         f'{"size":>14}{"mean":>9}{"std":>9}')


def define_flags():
    flags.DEFINE_list('datasets', None, f'data sets to show, of {", ".join(data.LOADERS)}, leaf:PATH and npz:PATH '
                      '[all that are here]')
    flags.DEFINE_string('data_dir', DATA_DIR, 'root with one folder of raw files a data set')
    flags.DEFINE_string('output', 'runs/datasets.png', 'the picture to write')
    flags.DEFINE_bool('download', False, 'fetch raw files that are not under data_dir')
    flags.DEFINE_integer('seed', 0, 'seed of splits and selections')
    flags.DEFINE_integer('max_clients', 100, 'femnist, writers, shakespeare: number of clients; 0 for all')


def sizes(split):
    """Size of each client [K]: examples, or characters, of which a sequence has one more than targets."""
    return split.targets() + (split.sizes() if split.y.ndim > 1 else 0)


def row(name, dataset):
    """A line of the table."""
    published = paper.TABLE_1.get(name)
    cells = (f'{published[0]:5}{published[1]:11,}{published[2]:8,}{published[3]:8,}' if published
             else f'{"–":>5}{"–":>11}{"–":>8}{"–":>8}')
    train = sizes(dataset.train)
    both = train + sizes(dataset.test)
    return (f'{name:14}{cells}{len(train):7}{train.sum():11,}{train.mean():8,.0f}{np.std(train):8,.0f}'
            f'{both.sum():14,}{both.mean():9,.0f}{np.std(both):9,.0f}')


def load(data_dir, names=None, **given):
    """({name: FederatedDataset}, {name: why it could not be loaded})"""
    datasets, missing = {}, {}
    for name in names or data.LOADERS:
        data.loader(name)
        try:
            datasets[name] = data.load(data_dir, make_settings({'dataset': name} | given))
        except DataError as error:
            missing[name] = str(error)
    return datasets, missing


def main(_):
    values = flags.FLAGS
    picture = pathlib.Path(values.output).expanduser()
    safe_files.check_writable(picture.parent, 'output')
    datasets, missing = load(values.data_dir, values.datasets, seed=values.seed, max_clients=values.max_clients,
                             download=values.download)
    if not datasets:
        raise VirtualTfError('; '.join(missing.values()))
    print(_HEAD)
    for name, dataset in datasets.items():
        print(row(name, dataset))
    print()
    for name, dataset in datasets.items():
        remarks = [remark for remark in (dataset.caveat, NOTES.get(name)) if remark]
        if remarks:
            print(f'{name}: {"; ".join(remarks)}')
    for name, reason in missing.items():
        print(f'{name}: {reason}')
    data_pictures.clients(datasets, picture)
    print(f'\npicture: {picture}')


if __name__ == '__main__':
    define_flags()
    entry.run(main)
