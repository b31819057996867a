"""The way into every command: what a user can put right becomes one sentence and exit code 2."""
import sys

from absl import app, flags, logging

from virtual_tf.types import VirtualTfError

USAGE_ERROR = 2


def run(main):
    """absl's app.run for `main`, with errors as sentences."""
    logging.use_absl_handler()
    try:
        app.run(main, flags_parser=_parse)
    except VirtualTfError as error:
        fail(error)


def fail(message):
    print(f'error: {message}', file=sys.stderr)
    sys.exit(USAGE_ERROR)


def _parse(arguments):
    try:
        return app.parse_flags_with_usage(arguments) if _asks_for_help(arguments) else flags.FLAGS(arguments)
    except flags.Error as error:
        fail(f'{error}; --help lists the flags')


def _asks_for_help(arguments):
    return any(argument.lstrip('-').split('=')[0] in ('help', 'helpfull', 'helpshort') for argument in arguments[1:])
