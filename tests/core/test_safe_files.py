import numpy as np
import pytest

from virtual_tf.core import safe_files
from virtual_tf.core.errors import VirtualTfError

ARRAYS = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(2.5), np.array([], np.int64), np.array([True, False])]


@pytest.fixture
def record(tmp_path):
    path = tmp_path / 'record'
    with safe_files.replacing(path) as file:
        safe_files.write_record(file, {'round': 7, 'name': 'ξ'}, ARRAYS)
    return path


def test_a_record_comes_back_as_it_was_written(record):
    header, arrays = safe_files.read_record(record)
    assert header == {'round': 7, 'name': 'ξ'}
    for array, expected in zip(arrays, ARRAYS, strict=True):
        assert array.dtype == expected.dtype and array.shape == expected.shape and np.array_equal(array, expected)


def test_every_flipped_bit_is_noticed(record):
    content = record.read_bytes()
    for position in range(len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            record.write_bytes(damaged)
            with pytest.raises(safe_files.DamagedFileError, match='record is damaged: its checksum'):
                safe_files.read_record(record)


def test_every_truncation_and_every_extension_is_noticed(record):
    content = record.read_bytes()
    for damaged in (*(content[:length] for length in range(len(content))), content + b'\0', content + content):
        record.write_bytes(damaged)
        with pytest.raises(safe_files.DamagedFileError):
            safe_files.read_record(record)


def test_a_missing_record_is_a_damaged_one(tmp_path):
    with pytest.raises(safe_files.DamagedFileError, match='nowhere is missing'):
        safe_files.read_record(tmp_path / 'nowhere')


def test_a_record_of_a_later_version_is_refused_not_taken_for_damage(record, monkeypatch):
    monkeypatch.setattr(safe_files, '_FORMAT', 2)
    with pytest.raises(VirtualTfError, match='another kind or version') as error:
        safe_files.read_record(record)
    assert not isinstance(error.value, safe_files.DamagedFileError)


def test_a_file_is_replaced_when_its_successor_is_complete_and_not_before(tmp_path):
    path = tmp_path / 'file'
    path.write_text('old')
    with safe_files.replacing(path) as file:
        file.write(b'new')
        assert path.read_text() == 'old'
    assert path.read_text() == 'new'
    with pytest.raises(RuntimeError), safe_files.replacing(path) as file:
        file.write(b'half of')
        raise RuntimeError
    assert path.read_text() == 'new' and list(tmp_path.iterdir()) == [path]


def test_a_folder_is_locked_for_others_until_the_end(tmp_path):
    with safe_files.locked(tmp_path):
        with pytest.raises(VirtualTfError, match='is in use by another run; wait'), safe_files.locked(tmp_path):
            pass
    with safe_files.locked(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_refused_with_the_reason(tmp_path):
    (tmp_path / 'file').touch()
    with pytest.raises(VirtualTfError, match=r'file/below cannot be written \(Not a directory\); choose another'):
        safe_files.check_writable(tmp_path / 'file' / 'below')
    safe_files.check_writable(tmp_path / 'new' / 'folder')
    assert not list((tmp_path / 'new' / 'folder').iterdir())
