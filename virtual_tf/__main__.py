"""`virtual-tf`, also as `python -m virtual_tf`: finds the command that is asked for and hands over to it."""
import ast
import contextlib
import difflib
import importlib
import importlib.util
import pathlib
import sys

COMMANDS = ('run', 'show', 'report', 'export', 'adapt', 'sweep', 'tables', 'figures', 'statements', 'ood', 'datasets',
            'bench')
_PACKAGES = ('virtual_tf.commands', 'scripts')     # where they are installed, and in a checkout


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    name, *rest = arguments or ['--help']
    if name in ('--help', '-h', 'help', '--version'):
        with contextlib.suppress(BrokenPipeError):     # a reader such as head that has seen enough
            print(_version() if name == '--version' else usage(), flush=True)
        return
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f'did you mean {near[0]!r}?' if near else f'known are {", ".join(COMMANDS)}'
        print(f'error: {name!r} is no command; {hint}', file=sys.stderr)
        sys.exit(2)
    sys.argv = [f'virtual-tf {name}', *rest]
    command = importlib.import_module(f'{_package()}.{name}')
    importlib.import_module(f'{_package()}.entry').run(command.main, command.define_flags, command.__doc__)


def usage():
    lines = ['usage: virtual-tf COMMAND [--flag=value …]; virtual-tf COMMAND --help lists its flags', '']
    return '\n'.join(lines + [f'  {name:12}{_first_line(name)}' for name in COMMANDS])


def _first_line(name):
    """What a command says of itself; read without running it, as that would import TensorFlow."""
    folder = pathlib.Path(importlib.util.find_spec(_package()).origin).parent
    return ast.get_docstring(ast.parse((folder / f'{name}.py').read_text(encoding='utf-8'))).splitlines()[0]


def _package():
    return next(name for name in _PACKAGES if importlib.util.find_spec(name))


def _version():
    return importlib.import_module('importlib.metadata').version('virtual-tf')


if __name__ == '__main__':
    main()
