import errno
import os
import signal
import time

import pytest

from scripts import entry
from virtual_tf.core.errors import Interrupted, RunError, VirtualTfError


def full_disk(code):
    return OSError(code, os.strerror(code), 'curves.png')


@pytest.mark.parametrize('error, code, sentence', [
    (VirtualTfError('rounds must be at least 1, got 0'), 2, 'error: rounds must be at least 1, got 0\n'),
    (RunError('the disk is full'), 1, 'error: the disk is full\n'),
    (full_disk(errno.ENOSPC), 1, 'error: curves.png could not be written: No space left on device\n'),
    (KeyboardInterrupt(), 130, 'error: interrupted\n')])
def test_what_ends_a_command_is_one_sentence_and_an_exit_code(monkeypatch, capsys, error, code, sentence):
    def run(*_, **__):
        raise error
    monkeypatch.setattr(entry.app, 'run', run)
    with pytest.raises(SystemExit) as ended:
        entry.run(None)
    assert ended.value.code == code and capsys.readouterr().err == sentence


def test_an_error_that_nobody_has_foreseen_keeps_its_traceback(monkeypatch):
    def run(*_, **__):
        raise full_disk(errno.ENOENT)
    monkeypatch.setattr(entry.app, 'run', run)
    with pytest.raises(FileNotFoundError):
        entry.run(None)


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_the_run_to_stop_and_becomes_the_exit_code(capsys, number):
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as ended, entry.stop_on_signals() as stop:
        assert not stop()
        os.kill(os.getpid(), number)
        while not stop():
            time.sleep(0.01)
        raise Interrupted('stopped after round 3 of 9')
    assert ended.value.code == 128 + number
    assert capsys.readouterr().err.splitlines()[-1] == f'{number.name}: stopped after round 3 of 9'
    assert signal.getsignal(number) is before and signal.set_wakeup_fd(-1) == -1


def test_sigterm_twice_is_patient(capsys):
    with entry.stop_on_signals() as stop:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)
        assert stop()
    assert capsys.readouterr().err.count('finishing the round') == 1
