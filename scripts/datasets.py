"""Prints the paper's Table 1 beside what is loaded here, and draws the clients' sizes and label mixes.

    python -m scripts.datasets --data_dir=DATA
"""
import pathlib

from absl import flags

from virtual_tf import data
from virtual_tf.core import safe_files
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.data.download import DATA_DIR
from virtual_tf.report import data_pictures, data_table

from . import entry


def define_flags():
    flags.DEFINE_list('datasets', None, f'data sets to show, of {", ".join(data.LOADERS)}, leaf:PATH and npz:PATH '
                      '[all that are here]')
    flags.DEFINE_string('data_dir', DATA_DIR, 'root with one folder of raw files a data set')
    flags.DEFINE_string('output', 'runs/datasets.png', 'the picture to write')
    flags.DEFINE_bool('download', False, 'fetch raw files that are not under data_dir')
    flags.DEFINE_integer('seed', 0, 'seed of splits and selections')
    flags.DEFINE_integer('max_clients', 100, f'{", ".join(data.WITH_MAX_CLIENTS)}: number of clients; 0 for all')


def main(_):
    values = flags.FLAGS
    picture = pathlib.Path(values.output).expanduser()
    safe_files.check_writable(picture.parent, 'output')
    datasets, missing = data_table.load(values.data_dir, values.datasets, seed=values.seed,
                                        max_clients=values.max_clients, download=values.download)
    if not datasets:
        raise VirtualTfError('; '.join(missing.values()))
    print(data_table.HEAD)
    for name, dataset in datasets.items():
        print(data_table.line(name, dataset))
    print()
    for name, dataset in datasets.items():
        if remarks := data_table.remarks(name, dataset):
            print(f'{name}: {remarks}')
    for name, reason in missing.items():
        print(f'{name}: {reason}')
    data_pictures.clients(datasets, picture)
    print(f'\npicture: {picture}')


if __name__ == '__main__':
    entry.run(main, define_flags)
