"""show, report, export and adapt on one small run, from the shell's side."""
import re

import numpy as np
import pytest
import small_runs

from scripts import entry
from virtual_tf import __main__ as command
from virtual_tf.report import overview, run_page
from virtual_tf.runs.opened import open_run


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp('shown')
    for method in ('virtual', 'fedavg'):
        small_runs.play(root / method, 'mlp', method, private='none', client_lr=0.05)
    return root


def call(name, *arguments, monkeypatch):
    """Runs a command in this process; its exit code."""
    monkeypatch.setattr(entry, '_OPERANDS', {})
    defined = entry.flags.FLAGS._flags()
    others = dict(defined)     # of commands that were here before: each defines its own
    try:
        for flag in ('data_dir', 'plugins', 'client', 'format', 'output', 'draws', 'seed', 'data', 'epochs'):
            defined.pop(flag, None)
        with pytest.raises(SystemExit) as ended:
            command.main([name, *map(str, arguments)])
    finally:
        defined.clear()
        defined.update(others)
    return ended.value.code


def test_show_tells_what_a_person_asks_first(folders):
    text = overview.text(open_run(folders / 'virtual'))
    history = open_run(folders / 'virtual').history
    best = history['mt/accuracy'].argmax()
    assert f'MT          best {100 * history["mt/accuracy"][best]:.2f} % in round {best + 1}' in text
    assert 'state       finished' in text and 'client_lr 0.05' in text and 'small mlp: 4 clients' in text
    assert f'{history["bytes_up"].sum():,.0f} up' in text
    # Ascending, and without the client that never trained.
    worst = re.findall(r'(client \w): ([\d.]+) % of', text)
    assert [float(value) for _, value in worst] == sorted(float(value) for _, value in worst)
    assert {name for name, _ in worst} == {'client a', 'client b', 'client c'}


def test_the_command_that_repeats_a_run_gives_its_settings(folders):
    run = open_run(folders / 'virtual')
    words = overview.command(run.settings).split()[2:]
    given = dict(word.removeprefix('--').split('=') for word in words if '=' in word)
    for name, value in given.items():
        assert str(getattr(run.settings, name)) == value
    usual = overview.registry.make_settings({'method': 'virtual'})
    differ = {name for name, value in run.settings.to_dict().items() if value != getattr(usual, name)}
    assert differ <= {*given} | {word.removeprefix('--no').removeprefix('--') for word in words}


def test_the_page_carries_everything_in_itself(folders):
    runs = [open_run(folders / name) for name in ('virtual', 'fedavg')]
    text = run_page.page(runs)
    for heading in ('Scores', 'Curves', 'Reliability', 'Accuracy over clients', 'Signal-to-noise ratio',
                    'Worst clients', 'Settings', 'Again'):
        assert f'<h2>{heading}</h2>' in text
    assert text.count('data:image/png;base64,') == 4
    assert not re.search(r'(src|href)="(?!data:)', text) and 'http' not in re.sub(r'base64,[^"]+', '', text)
    assert 'class=differs' in text and text.count('virtual-tf run') == 2


def test_names_are_text_and_no_markup(folders, monkeypatch):
    run = open_run(folders / 'fedavg')
    monkeypatch.setattr(overview, 'worst_clients', lambda run: [('<script>', 0.5, 3)])
    assert '<script>' not in run_page.page([run])


def test_a_run_that_is_given_twice_is_refused(folders):
    with pytest.raises(run_page.VirtualTfError, match='given twice'):
        run_page.page([open_run(folders / 'fedavg')] * 2)


def test_export_and_adapt_from_the_shell(folders, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert not call('export', folders / 'fedavg', '--client=client b', '--format=keras', monkeypatch=monkeypatch)
    assert re.search(r'client-b\.keras, [\d,]+ bytes', capsys.readouterr().out)
    assert (tmp_path / 'client-b.keras').exists()
    x = np.random.default_rng(0).normal(size=(40, 3))
    np.savez(tmp_path / 'ann.npz', x=x, y=(x[:, 0] > 0).astype(int), client=np.full(40, 'ann'))
    assert not call('adapt', folders / 'fedavg', f'--data=npz:{tmp_path / "ann.npz"}', '--epochs=3', '--output=ann',
                f'--data_dir={tmp_path}', monkeypatch=monkeypatch)
    assert 'ann: 30 examples to train on, 10 to test, 3 epochs' in capsys.readouterr().out
    assert open_run(tmp_path / 'ann').client('ann').trained


@pytest.mark.parametrize('arguments, sentence', [
    ([], 'takes a RUN, got 0'), (['nowhere'], 'there is no folder nowhere'),
    (['{run}', '--client=client x'], "client 'client x' is unknown; nearest of 4 are"),
    (['{run}', '--format=onnx'], "format 'onnx' is unknown")])
def test_what_cannot_be_exported_is_one_sentence(folders, arguments, sentence, monkeypatch, capsys):
    arguments = [argument.replace('{run}', str(folders / 'fedavg')) for argument in arguments]
    assert call('export', *arguments, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.startswith('error: ') and said.count('\n') == 1
