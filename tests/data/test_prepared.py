"""The prepared form of raw files."""
import os

import numpy as np
import pytest

from virtual_tf.data import prepared
from virtual_tf.data.example_table import Table

TABLE = Table(np.arange(6.0).reshape(3, 2), np.array([0, 1, 0]), np.array([0, 0, 1]), ('ann', 'bob'), 2,
              np.array([False, True, False]), 'a caveat', ('a note',))


class Source:
    """A raw file, and how often it was prepared."""

    def __init__(self, root, table=TABLE):
        self.root, self.table, self.path, self.count = root, table, root / 'raw', 0
        root.mkdir(exist_ok=True)
        self.path.write_text('raw')

    def load(self, **options):
        return prepared.load(self.root, 'toy', [self.path], self._prepare, **options)

    def _prepare(self):
        self.count += 1
        return self.table


@pytest.fixture
def source(tmp_path):
    return Source(tmp_path / 'data')


def assert_same(first, second):
    for a, b in zip(first, second):
        np.testing.assert_array_equal(a, b)


def test_second_start_reads_what_the_first_prepared(source):
    assert_same(source.load(), TABLE)
    assert_same(source.load(), TABLE)
    assert source.count == 1
    assert [path.suffix for path in (source.root / 'prepared').iterdir()] == ['.npz']


def test_table_without_split_or_notes_survives(tmp_path):
    table = TABLE._replace(is_test=None, notes=(), caveat='')
    source = Source(tmp_path / 'data', table)
    source.load()
    again = source.load()
    assert again.is_test is None and again.notes == () and again.caveat == '' and again.num_classes == 2


def test_options_have_files_of_their_own(source):
    source.load(seed=0), source.load(seed=1), source.load(seed=0)
    assert source.count == 2


def test_changed_raw_file_is_prepared_again_in_the_same_place(source):
    source.load()
    os.utime(source.path, ns=(0, 0))
    source.load()
    source.path.write_text('longer')
    source.load()
    assert source.count == 3 and len(list((source.root / 'prepared').iterdir())) == 1


def test_other_format_is_prepared_again(source, monkeypatch):
    source.load()
    monkeypatch.setattr(prepared, 'FORMAT', prepared.FORMAT + 1)
    source.load()
    assert source.count == 2


@pytest.mark.parametrize('damage', [
    lambda content: content[:len(content) // 2], lambda content: b'', lambda content: b'no archive',
    # A bit of the values, which only the archive's own checksum tells.
    lambda content: content.replace(np.float64(5.0).tobytes(), np.float64(7.0).tobytes())])
def test_damaged_file_is_never_trusted(source, damage):
    source.load()
    path, = (source.root / 'prepared').iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert_same(source.load(), TABLE)
    assert source.count == 2
    source.load()
    assert source.count == 2


def test_read_only_root_uses_the_home_folder(source, home):
    source.root.chmod(0o555)
    try:
        source.load(), source.load()
    finally:
        source.root.chmod(0o755)
    assert source.count == 1 and sorted(path.name for path in source.root.iterdir()) == ['raw']
    assert len(list((home / '.cache' / 'virtual_tf' / 'prepared').iterdir())) == 1


def test_no_place_to_write_is_no_error(source, home):
    (source.root / 'prepared').write_text('in the way')
    (home / '.cache').write_text('in the way')
    assert_same(source.load(), TABLE)
