"""Trees of files, as folders or inside zip archives, read alike."""
import io
import pathlib
import zipfile
import zlib

from virtual_tf.data.federated import DataError


def members(path):
    """{path within: function that reads its bytes} of a folder or a zip archive, with the archives inside it."""
    path = pathlib.Path(path)
    if path.is_dir():
        files = (file for file in sorted(path.rglob('*')) if file.is_file())
        # With the folder's own name, as it would be inside an archive.
        return {file.relative_to(path.parent).as_posix(): file.read_bytes for file in files}
    return _of_zip(path, path)


def find(readers, endings):
    """The readers of the files that end so, letter case aside, in the order of `endings`; None if one is missing."""
    found = []
    for ending in endings:
        names = [name for name in readers if f'/{name.lower()}'.endswith('/' + ending.lower())]
        if not names:
            return None
        found.append(readers[min(names, key=len)])
    return found


def _of_zip(source, path):
    try:
        archive = zipfile.ZipFile(source)
        readers = {}
        for name in archive.namelist():
            if name.lower().endswith('.zip'):
                readers |= _of_zip(io.BytesIO(_read(archive, name, path)), path)
            elif not name.endswith('/'):
                readers[name] = lambda name=name: _read(archive, name, path)
    except (zipfile.BadZipFile, OSError) as error:
        raise _damaged(path, error) from error
    return readers


def _read(archive, name, path):
    try:
        return archive.read(name)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise _damaged(path, error) from error


def _damaged(path, error):
    return DataError(f'{path} is not a complete zip archive ({error}); delete it and fetch it again')
