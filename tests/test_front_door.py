"""The package as a newcomer meets it: the README's example and table, the documents' code, one command."""
import ast
import importlib
import os
import re
import subprocess
import sys

import pytest
from documented import ROOT, block, registries  # noqa: F401

import virtual_tf as vt
from virtual_tf import __main__ as command
from virtual_tf.core import plugins

QUIET = os.environ | {'PYTHONPATH': str(ROOT)}


def python(*arguments, cwd, **environment):
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=cwd, capture_output=True, text=True,
                          env={name: value for name, value in (QUIET | environment).items()
                               if name != 'TF_CPP_MIN_LOG_LEVEL'})


def test_the_readmes_example_runs_as_it_stands_and_writes_nothing_to_stderr_but_progress(tmp_path):
    code = block('README.md', 'vt.make_settings')
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    done = python('-c', code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "'server/accuracy': 0." in done.stdout and (tmp_path / 'runs' / 'first' / 'summary.json').exists()
    assert not re.search('oneDNN|cuda|TensorRT|cpu_feature_guard', done.stderr)


def test_every_function_of_the_papers_table_exists():
    section = (ROOT / 'README.md').read_text(encoding='utf-8').split('## The paper in the code')[1].split('\n## ')[0]
    rows = [line.split('|')[2] for line in section.splitlines() if line.startswith('|')][2:]
    names = [name for row in rows for name in re.findall('`([^`]+)`', row)]
    assert len(rows) >= 15 and len(names) >= 20
    for name in names:
        path, _, attribute = f'virtual_tf.{name}'.rpartition('.')
        try:
            found = importlib.import_module(path)
        except ModuleNotFoundError:     # a method of a class
            path, _, kind = path.rpartition('.')
            found = getattr(importlib.import_module(path), kind)
        assert callable(getattr(found, attribute)), name


def test_the_readme_is_short_and_its_room_map_is_the_packages():
    text = (ROOT / 'README.md').read_text(encoding='utf-8')
    assert text.count('\n') <= 130
    rooms = re.findall(r'^\| `(\w+)/` \|', text, re.MULTILINE)
    assert rooms == ['core', 'networks', 'data', 'methods', 'simulator', 'runs', 'studies', 'report', 'deploy']
    assert all((ROOT / 'virtual_tf' / room / '__init__.py').exists() for room in rooms)


@pytest.mark.parametrize('page', ['README.md', 'BUILD_NOTES.md', *(f'docs/{path.name}' for path in (
    ROOT / 'docs').glob('*.md'))])
def test_links_lead_somewhere(page):
    path = ROOT / page
    for target in re.findall(r'\]\(([^)#\s]+)\)', path.read_text(encoding='utf-8')):
        assert target.startswith('http') or (path.parent / target).exists(), target


def test_the_api_is_small_documented_and_light():
    tree = ast.parse((ROOT / 'virtual_tf' / '__init__.py').read_text(encoding='utf-8'))
    told = ast.get_docstring(tree)
    for name in vt.__all__:
        assert getattr(vt, name) is not None and re.search(rf'\b{name}\b', told), name
    with pytest.raises(AttributeError, match="no attribute 'rum'"):
        vt.rum     # noqa: B018
    code = 'import sys, virtual_tf.core.settings, virtual_tf.core.encoding; sys.exit("tensorflow" in sys.modules)'
    assert python('-c', code, cwd=ROOT).returncode == 0


def test_a_run_in_three_lines_is_what_its_folder_holds(tmp_path):
    settings = vt.make_settings(method='fedavg', rounds=2, epochs=1, compile='graph')
    summary, history = vt.run(settings, vt.load_data(settings), tmp_path / 'run', progress=False)
    run = vt.read_run(tmp_path / 'run')
    assert run.settings == settings.to_dict() and run.rounds == 2
    assert run.metrics['mt/accuracy'].tolist() == [row['mt/accuracy'] for row in history]
    assert summary['final']['mt/accuracy'] == run.metrics['mt/accuracy'][-1]


def test_the_documented_data_set_and_table_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(block('docs/extending.md', 'FederatedDataset('), {})
    assert vt.read_run(tmp_path / 'runs' / 'mine').rounds == 2
    exec(block('docs/extending.md', 'text_tables.markdown'), {})
    # 97.1, 97.4, 97.3: mean 97.2667, deviation 0.1528, t = 4.303 with 2 degrees of freedom: 0.3795
    assert '| mine | 97.27 ± 0.38 |' in capsys.readouterr().out


def test_a_plugin_method_brings_its_flag_and_its_row(tmp_path):
    path = tmp_path / 'my_method.py'
    path.write_text(block('docs/extending.md', '# my_method.py'), encoding='utf-8')
    done = python('-m', 'scripts.run', f'--plugins={path}', '--method=timid,fedavg', '--boldness=0.7', '--rounds=2',
                  '--epochs=1', '--compile=graph', f'--output_dir={tmp_path / "runs"}', cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert vt.read_run(tmp_path / 'runs' / 'timid' / 'seed-0').settings['boldness'] == 0.7
    assert re.search(r'^timid +\d', done.stdout, re.MULTILINE)
    shown = python('-m', 'scripts.run', f'--plugins={path}', '--help', cwd=ROOT).stdout
    assert 'method timid:' in shown and '--boldness' in shown


def test_the_command_lists_its_commands_with_a_line_each():
    done = python('-m', 'virtual_tf', '--help', cwd=ROOT)
    lines = [line for line in done.stdout.splitlines() if line.startswith('  ')]
    assert [line.split()[0] for line in lines] == list(command.COMMANDS) and all(len(line) > 30 for line in lines)


def test_a_mistyped_command_gets_its_nearest_name():
    done = python('-m', 'virtual_tf', 'sweeep', cwd=ROOT)
    assert (done.returncode, done.stderr.strip()) == (2, "error: 'sweeep' is no command; did you mean 'sweep'?")


def test_the_command_hands_over_with_its_flags(tmp_path):
    done = python('-m', 'virtual_tf', 'run', '--dataset=nonsense', f'--output_dir={tmp_path}', cwd=ROOT)
    assert done.returncode == 2 and "dataset 'nonsense' is unknown" in done.stderr


def test_a_plugin_is_run_once(tmp_path, registries):     # noqa: F811
    path = tmp_path / 'mine.py'
    path.write_text('import virtual_tf as vt\n\n@vt.register_model("mine")\ndef mine(*shape, **options): pass\n')
    before = {*plugins.digests()}
    vt.load_plugin(path)
    vt.load_plugin(path)
    assert {*plugins.digests()} - before == {'mine.py'}


def test_everything_of_the_package_is_in_the_repository():
    """A line of .gitignore that hides a room would be seen in a clone alone."""
    command_line = ['git', 'ls-files', '--others', '--ignored', '--exclude-standard', 'virtual_tf', 'scripts', 'tests']
    listed = subprocess.run(command_line, cwd=ROOT, capture_output=True, text=True)
    assert not [name for name in listed.stdout.split() if name.endswith('.py')]
