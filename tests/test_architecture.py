"""Reads the source, not the running program: who imports whom, and what is said where."""
import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / 'virtual_tf'

# From the ground up: a module imports only from rooms above its own in this list, or from its own package.
ROOMS = ('core', 'networks', 'methods', 'data', 'simulator', 'runs', 'studies', 'report', 'deploy')
SOURCES = sorted(path for path in PACKAGE.rglob('*.py') if path != PACKAGE / '__init__.py')
NAMES = [str(path.relative_to(ROOT)) for path in SOURCES]


def room_of(path):
    return pathlib.PurePath(path).relative_to('virtual_tf').parts[0].removesuffix('.py')


def imported(source):
    """Dotted names of all that a source imports: `from a.b import c` is a.b.c."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, 'imports are absolute'
            yield from (f'{node.module}.{alias.name}' for alias in node.names)


def wrong_way(room, source):
    """Imports that do not come from a room above."""
    allowed = {*ROOMS[:ROOMS.index(room) + 1]}
    names = [name.split('.') for name in imported(source)]
    return ['.'.join(parts) for parts in names
            if parts[0] == 'scripts' or (parts[0] == 'virtual_tf' and parts[1] not in allowed)]


def calls(source, function):
    return [node.lineno for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function]


@pytest.mark.parametrize('path', SOURCES, ids=NAMES)
def test_a_module_imports_only_from_rooms_above_it(path):
    room = room_of(path.relative_to(ROOT))
    assert room in ROOMS, f'{room} needs a place in ROOMS'
    assert wrong_way(room, path.read_text(encoding='utf-8')) == []


def test_an_import_the_wrong_way_would_be_seen():
    assert wrong_way('networks', 'from virtual_tf import core, simulator') == ['virtual_tf.simulator']
    assert wrong_way('core', 'def f():\n    import virtual_tf.methods.virtual') == ['virtual_tf.methods.virtual']
    assert wrong_way('runs', 'from scripts import run') == ['scripts.run']


@pytest.mark.parametrize('path', SOURCES, ids=NAMES)
def test_flags_live_in_scripts_alone(path):
    names = list(imported(path.read_text(encoding='utf-8')))
    assert not [name for name in names if name.startswith(('absl.flags', 'absl.app'))]


@pytest.mark.parametrize('path', SOURCES, ids=NAMES)
def test_the_library_never_prints(path):
    assert calls(path.read_text(encoding='utf-8'), 'print') == []


@pytest.mark.parametrize('path', SOURCES, ids=NAMES)
def test_tfds_is_for_the_data_room_alone(path):
    if room_of(path.relative_to(ROOT)) != 'data':
        names = list(imported(path.read_text(encoding='utf-8')))
        assert not [name for name in names if name.startswith('tensorflow_datasets')]


def test_the_rooms_are_those_that_exist():
    assert set(ROOMS) >= {room_of(path.relative_to(ROOT)) for path in SOURCES}
    assert all((PACKAGE / f'{room}.py').exists() or (PACKAGE / room / '__init__.py').exists() for room in ROOMS)
