"""Reads the source, not the running program: who imports whom, how long things are, and what is said where."""
import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE, SCRIPTS = ROOT / 'virtual_tf', ROOT / 'scripts'

# What each room imports from; all that it may, and no more than it does.
EDGES = {
    'core': set(),
    'networks': {'core'},
    'data': {'core'},
    'methods': {'core', 'networks'},
    'simulator': {'core', 'networks', 'methods'},
    'runs': {'core', 'networks', 'data', 'methods', 'simulator'},
    'studies': {'core', 'data', 'methods', 'runs'},
    'report': {'core', 'data', 'methods', 'simulator', 'runs', 'studies'},
    'deploy': {'core', 'data', 'methods', 'simulator', 'runs'},
    'front door': {'core', 'data', 'methods', 'runs'},
}
# Without TensorFlow, so that a process that only passes messages starts fast.
LIGHT = ('core/errors.py', 'core/settings.py', 'core/encoding.py', 'core/safe_files.py', 'core/strict_json.py',
         'core/plugins.py', 'deploy/protocol.py', '__init__.py', '__main__.py')
LIBRARY = sorted(PACKAGE.rglob('*.py'))
SOURCES = [*LIBRARY, *sorted(SCRIPTS.glob('*.py'))]
COMMAND = PACKAGE / '__main__.py'


def name_of(path):
    return str(path.relative_to(ROOT))


def room_of(path):
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else 'front door'


def imported(source):
    """Dotted names of all that a source imports: `from a.b import c` is a.b.c, `from . import c` is .c"""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ('.' * node.level + '.'.join(filter(None, (node.module, alias.name))) for alias in node.names)


def rooms_of(source):
    """Rooms that a source imports from; what is no room, such as scripts, counts as one."""
    names = [name.split('.') for name in imported(source)]
    return {parts[1] if parts[0] == 'virtual_tf' else parts[0] for parts in names
            if parts[0] in ('virtual_tf', 'scripts', '')}


def read(path):
    return path.read_text(encoding='utf-8')


def calls(source, function):
    return [node.lineno for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function]


@pytest.mark.parametrize('room', EDGES)
def test_a_room_imports_from_the_rooms_that_the_map_says(room):
    found = set().union(*(rooms_of(read(path)) for path in LIBRARY if room_of(path) == room)) - {room, 'api'}
    assert found == EDGES[room]


def test_the_map_has_every_room_and_no_way_round():
    assert {room_of(path) for path in LIBRARY} == {*EDGES}
    order = list(EDGES)
    for room, above in EDGES.items():
        assert all(order.index(other) < order.index(room) for other in above)


def test_an_import_the_wrong_way_would_be_seen():
    assert rooms_of('from virtual_tf import core, simulator') == {'core', 'simulator'}
    assert rooms_of('def f():\n    import virtual_tf.methods.virtual') == {'methods'}
    assert rooms_of('from scripts import run\nimport numpy') == {'scripts'}
    assert rooms_of('from . import run') == {''}


@pytest.mark.parametrize('path', SOURCES, ids=name_of)
def test_scripts_import_each_other_by_relative_names_and_the_library_imports_none(path):
    """Installed, scripts are virtual_tf.commands."""
    names = list(imported(read(path)))
    assert not [name for name in names if name.split('.')[0] == 'scripts' or name.startswith('virtual_tf.commands')]
    assert path in [*SCRIPTS.glob('*.py')] or not [name for name in names if name.startswith('.')]


@pytest.mark.parametrize('name', LIGHT)
def test_what_only_passes_messages_needs_no_tensorflow(name):
    tree = ast.parse(read(PACKAGE / name))
    at_import = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    modules = list(imported(ast.unparse(at_import)))
    assert not [module for module in modules if module.startswith(('tensorflow', 'virtual_tf.methods.'))]
    heavy = [module for module in modules if module.startswith('virtual_tf.')
             and not any(f'virtual_tf.{light[:-3].replace("/", ".")}'.startswith(module)
                         or module.startswith(f'virtual_tf.{light[:-3].replace("/", ".")}') for light in LIGHT)]
    assert not heavy


@pytest.mark.parametrize('path', SOURCES, ids=name_of)
def test_files_and_functions_are_short(path):
    source = read(path)
    assert source.count('\n') <= 300
    long = [node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)
            and node.end_lineno - node.lineno >= 50]
    assert not long


@pytest.mark.parametrize('path', LIBRARY, ids=name_of)
def test_flags_and_printing_live_in_scripts_alone(path):
    names = list(imported(read(path)))
    assert not [name for name in names if name.startswith(('absl.flags', 'absl.app'))]
    assert path == COMMAND or calls(read(path), 'print') == []


@pytest.mark.parametrize('path', LIBRARY, ids=name_of)
def test_tfds_is_for_the_data_room_alone(path):
    names = list(imported(read(path)))
    assert room_of(path) == 'data' or not [name for name in names if name.startswith('tensorflow_datasets')]


@pytest.mark.parametrize('path', SOURCES, ids=name_of)
def test_methods_are_asked_for_by_name_only_among_methods_and_studies(path):
    """What the paper ran is in studies; benchmarks and the paper's tables say which of its methods they show."""
    exempt = (path.parent == SCRIPTS and path.stem.startswith('bench')) or (
        path.is_relative_to(PACKAGE) and room_of(path) in ('methods', 'studies')) or path.name == 'pruning_table.py'
    words = {node.value for node in ast.walk(ast.parse(read(path)))
             if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names = {'virtual', 'barycentre', 'ditto', 'fedavg', 'fedivon', 'fedper', 'fedprox', 'fedrep', 'pfedbayes',
             'pfedme'}
    allowed = {'virtual'} if path.name in ('settings.py', 'run.py') else set()     # the default of --method
    assert exempt or not words & names - allowed


@pytest.mark.parametrize('name', ['metrics.jsonl', 'summary.json', 'config.json'])
def test_a_run_folder_has_one_owner(name):
    users = [name_of(path) for path in SOURCES if name in {
        node.value for node in ast.walk(ast.parse(read(path))) if isinstance(node, ast.Constant)}]
    assert users == ['virtual_tf/runs/folder.py']
