"""Writes the model of a run's server or client as SavedModel, TensorFlow Lite or Keras file.

    python -m scripts.export RUN --client=NAME --format=tflite
"""
import re

from absl import flags

from virtual_tf.runs.export import FORMATS

from . import entry, opening

SERVER = 'server'


def define_flags():
    opening.define_flags()
    flags.DEFINE_string('client', SERVER, 'name of a client; server is the model that all share')
    flags.DEFINE_string('format', 'savedmodel', f'one of {", ".join(FORMATS)}')
    flags.DEFINE_string('output', None, 'file, or folder of a SavedModel, to write [the name of the client]')
    flags.DEFINE_integer('draws', 0, 'tflite: networks drawn from the posterior that it averages; 0 is the mean '
                         'network', lower_bound=0)
    flags.DEFINE_integer('seed', 0, 'seed of the draws', lower_bound=0)


def main(arguments):
    values = flags.FLAGS
    run, = opening.open_all(arguments)
    model = run.server if values.client == SERVER else run.client(values.client)
    path = model.export(values.output or re.sub(r'[^\w.-]+', '-', model.name), values.format, values.draws, values.seed)
    size = sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob('*')) if file.is_file())
    print(f'{model}: {path}, {size:,} bytes')


if __name__ == '__main__':
    entry.run(main, define_flags)
