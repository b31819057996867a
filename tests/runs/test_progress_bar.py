import itertools
import re
import sys

import pytest

from virtual_tf.runs import hooks
from virtual_tf.runs.hooks import progress_bar

METRICS = {'server/accuracy': 0.123, 'mt/accuracy': 0.5, 'train/loss': 1.5}


def play(rounds, done=0, seconds=None, monkeypatch=None):
    """A run whose rounds take so many seconds each, by a clock that is set."""
    clock = [100.0]
    if monkeypatch:
        monkeypatch.setattr(progress_bar.time, 'monotonic', lambda: clock[0])
    hook = hooks.ProgressBar('virtual', rounds, done)
    for number, took in zip(range(done + 1, rounds + 1), seconds or itertools.repeat(0.0)):
        clock[0] += took
        hook.on_round(METRICS | {'round': number}, None, None)
    hook.close()


def shown(capsys):
    """[(round, time left)] of the lines on stderr, which are all there is."""
    captured = capsys.readouterr()
    assert captured.out == '' and '\r' not in captured.err
    pattern = r'virtual: round (\d+)/\d+, S=12\.3, MT=50\.0, loss=1\.500, ([\d:]+) left'
    return [(int(match[1]), match[2]) for match in map(re.compile(pattern).fullmatch, captured.err.splitlines())]


@pytest.mark.parametrize('rounds, every', [(1, 1), (3, 1), (20, 1), (21, 2), (60, 3), (1000, 50)])
def test_without_a_terminal_a_run_has_at_most_twenty_lines_and_its_last_round(capsys, rounds, every):
    play(rounds)
    numbers = [number for number, _ in shown(capsys)]
    # every n-th round where 20 of them cover the run, and the last in any case
    assert numbers == sorted({*range(every, rounds + 1, every), rounds}) and len(numbers) <= 20


def test_a_slow_run_has_a_line_a_minute(capsys, monkeypatch):
    play(200, seconds=itertools.repeat(25.0), monkeypatch=monkeypatch)
    numbers = [number for number, _ in shown(capsys)]
    # every 10th round, and the third round, after 75 s, from each line on
    assert numbers[:8] == [3, 6, 9, 10, 13, 16, 19, 20]
    assert max(later - earlier for earlier, later in itertools.pairwise([0, *numbers])) * 25 <= 75


def test_the_time_left_is_that_of_rounds_like_the_later_ones(capsys, monkeypatch):
    play(6, done=2, seconds=(30.0, 2.0, 4.0, 3.0), monkeypatch=monkeypatch)
    # 3 rounds like the first of this command; then as many as are left of 2 s, of (2 + 4) / 2 s, and none
    assert shown(capsys) == [(3, '01:30'), (4, '00:04'), (5, '00:03'), (6, '00:00')]


def test_a_terminal_has_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, 'isatty', lambda: True)
    play(2)
    written = capsys.readouterr().err
    assert '\r' in written and '100%' in written and 'S=12.3, MT=50.0, loss=1.500' in written
