"""Asks runs how sure they are of foreign examples: AUROC of entropy and mutual information.

    python -m scripts.ood --run=runs/virtual-residual/seed-0,runs/fedavg/seed-0 --against=shuffled
    python -m scripts.ood --run=runs/mnist/virtual-residual/seed-0 --against=femnist,shuffled --data_dir=DATA

An AUROC is how often a foreign example is less certain than one of the run's test data; 0.5 is chance. `shuffled` is
the run's test data with the features of each example in another order. What is found is kept as ood.json in the run's
folder.
"""
import pathlib

from absl import flags

from virtual_tf.core import plugins, strict_json
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.data.download import DATA_DIR
from virtual_tf.report import text_tables
from virtual_tf.runs import opened, out_of_distribution

from . import entry


def define_flags():
    flags.DEFINE_list('run', [], 'folders of runs')
    flags.DEFINE_list('against', [out_of_distribution.SHUFFLED],
                      f'data sets of the same shape, or {out_of_distribution.SHUFFLED}')
    flags.DEFINE_integer('samples', out_of_distribution.SAMPLES, 'weight samples of methods with Gaussian weights',
                         lower_bound=0)
    flags.DEFINE_string('data_dir', DATA_DIR, 'root with one folder of raw files a data set')
    flags.DEFINE_list('plugins', [], 'Python files to run first, of the runs that were played with them')


def main(_):
    values = flags.FLAGS
    if not values.run or not values.against:
        raise VirtualTfError('run must name the folder of a run, and against what to hold it against; '
                             '--run=FOLDER --against=shuffled')
    for path in values.plugins:
        plugins.load(path)
    rows, titles = [], out_of_distribution.SCORES
    for folder in values.run:
        run = opened.open_run(folder, values.data_dir)
        found = {name: out_of_distribution.measure(run, name, values.data_dir, values.samples)
                 for name in values.against}
        path = pathlib.Path(folder).expanduser() / out_of_distribution.FILE
        strict_json.write(path, (strict_json.read(path) if path.exists() else {}) | found)
        rows += [[folder, name, *(f'{scores[score]:.3f}' if score in scores else '–' for score in titles)]
                 for name, scores in found.items()]
    print(text_tables.markdown(['run', 'against', *(f'AUROC of {title}' for title in titles.values())], rows))


if __name__ == '__main__':
    entry.run(main, define_flags)
