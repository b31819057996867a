"""The way into every command: what a user can put right becomes one sentence and exit code 2.

What stops a run that was set up well has exit code 1, and a signal 128 and its number.
"""
import contextlib
import errno
import os
import signal
import sys
import textwrap
import threading

from absl import app, flags, logging

from virtual_tf.core.errors import Interrupted, RunError, VirtualTfError

RUN_ERROR, USAGE_ERROR, BY_SIGNAL = 1, 2, 128


_HEADINGS = {}     # flag → its heading in --help, in the order in which they are shown
_OPERANDS = {}     # what a command takes beside flags: {its name: how many at most}


def run(main, define_flags=lambda: None, about=None):
    """absl's app.run for `main`, with errors as sentences; `about` is what --help begins with, else __main__'s."""
    logging.use_absl_handler()
    try:
        define_flags()
        app.run(main, flags_parser=lambda arguments: _parse(arguments, about or sys.modules['__main__'].__doc__))
    except RunError as error:
        fail(error, RUN_ERROR)
    except VirtualTfError as error:
        fail(error)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        fail(f'{error.filename or "a file"} could not be written: {error.strerror}', RUN_ERROR)
    except KeyboardInterrupt:
        fail('interrupted', BY_SIGNAL + signal.SIGINT)


def under(heading, *names):
    """Puts flags under a heading of --help; headings come in the order in which they were first named."""
    _HEADINGS.update(dict.fromkeys(names, heading))


def takes(name, most=1):
    """Lets the command take from one to `most` words beside its flags, such as folders."""
    _OPERANDS[name] = most
    flags.FLAGS.set_gnu_getopt()     # flags may come after them


def fail(message, code=USAGE_ERROR):
    print(f'error: {message}', file=sys.stderr)
    sys.exit(code)


@contextlib.contextmanager
def stop_on_signals():
    """Yields the function that tells a run to stop, which is so after SIGTERM or Ctrl-C; a second Ctrl-C ends it all.

    Python runs its handlers between two instructions, which a compiled loop may hold up for minutes. So a thread
    watches instead: it answers at once.
    """
    received = []
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def watch():
        while number := os.read(reader, 1):
            received.append(signal.Signals(number[0]))
            if len(received) > 1 and received[-1] == signal.SIGINT:
                os._exit(BY_SIGNAL + signal.SIGINT)
            if len(received) == 1:
                print(f'\n{received[0].name}: finishing the round; Ctrl-C ends it at once', file=sys.stderr, flush=True)

    handlers = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda: bool(received)
    except Interrupted as error:
        print(f'{received[0].name}: {error}', file=sys.stderr)
        sys.exit(BY_SIGNAL + received[0])
    finally:
        signal.set_wakeup_fd(previous)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(writer)
        watcher.join()
        os.close(reader)


def _parse(arguments, about):
    if _asks_for_help(arguments):
        print(help_text(about))
        sys.exit(0)
    try:
        rest = flags.FLAGS(arguments)
    except flags.Error as error:
        fail(f'{error}; --help lists the flags, and what a plug-in brings is there with its --plugins')
    for name, most in _OPERANDS.items():
        if not 1 <= len(rest) - 1 <= most:
            fail(f'{arguments[0]} takes {"a" if most == 1 else "some"} {name}, got {len(rest) - 1}; give its folder')
        return rest
    if len(rest) > 1:
        # Often the value of a switch: --use_bias false means --use_bias and a word that nobody reads.
        fail(f'{rest[1]!r} belongs to no flag; write --flag=value, and --noflag to turn a switch off')
    return rest


def help_text(about):
    """What the command is, and its flags under their headings; those of other libraries are left out."""
    ours = (__package__.split('.')[0], sys.argv[0])
    flags_of = flags.FLAGS.flags_by_module_dict().items()
    known = {flag.name: flag for module, found in flags_of if module.startswith(ours) for flag in found}
    groups = {'this command': [name for name in known if name not in _HEADINGS]}
    for name, heading in _HEADINGS.items():
        groups.setdefault(heading, []).append(name)
    lines = [about.strip().replace('python -m scripts.', 'virtual-tf ') if sys.argv[0].startswith('virtual-tf ')
             else about.strip()]
    for heading, names in groups.items():
        lines += ['', f'{heading}:', *(_describe(known[name]) for name in names)] if names else []
    return '\n'.join(lines)


def _describe(flag):
    default = '' if flag.default in (None, [], '') else f' [{flag.default_as_str.strip(chr(39))}]'
    text = f'{flag.help}{default}'
    return textwrap.fill(text, 118, initial_indent=f'  --{flag.name:20} ', subsequent_indent=' ' * 25)


def _asks_for_help(arguments):
    words = {argument.lstrip('-').split('=')[0] for argument in arguments[1:] if argument.startswith('-')}
    return bool(words & {'help', 'helpfull', 'helpshort', 'h'})
