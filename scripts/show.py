"""Prints what a person asks first about a run: settings, scores, worst clients, time, bytes.

    python -m scripts.show RUN
"""
from virtual_tf.report import overview

from . import entry, opening


def define_flags():
    opening.define_flags(most=100)


def main(arguments):
    print('\n\n'.join(overview.text(run) for run in opening.open_all(arguments)))


if __name__ == '__main__':
    entry.run(main, define_flags)
