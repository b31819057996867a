"""Trains one new client from the posterior of a run, which is not changed, and keeps its personal model.

    python -m scripts.adapt RUN --data=npz:FILE --epochs=20 --output=FOLDER
"""
import pathlib

from absl import flags

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.runs import adaptation
from virtual_tf.runs.summary import MT, S

from . import entry, opening


def define_flags():
    opening.define_flags()
    flags.DEFINE_string('data', None, 'data of the one client: npz:FILE or leaf:FOLDER')
    flags.DEFINE_integer('epochs', 20, 'epochs that it trains', lower_bound=1)
    flags.DEFINE_string('output', None, 'folder for its model, to be opened, shown and exported like a run')


def main(arguments):
    values = flags.FLAGS
    for name in ('data', 'output'):
        if not getattr(values, name):
            raise VirtualTfError(f'{name} is missing; give --data=npz:FILE and --output=FOLDER')
    run, = opening.open_all(arguments)
    dataset = adaptation.load(run, values.data_dir, values.data)
    output = pathlib.Path(values.output).expanduser()
    adaptation.check_output(output)
    metrics = adaptation.save(run, adaptation.train(run, dataset, values.epochs), dataset, output)
    print(f'{dataset.clients[0]}: {len(dataset.train.y)} examples to train on, {len(dataset.test.y)} to test, '
          f'{values.epochs} epochs from round {run.checkpoint.round}\n'
          f'accuracy of the server\'s model {100 * metrics[S]:.2f} %, of its own {100 * metrics[MT]:.2f} %\n'
          f'kept: {output}')


if __name__ == '__main__':
    entry.run(main, define_flags)
