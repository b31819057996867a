"""Raw files: from <data_dir>/<data set>/ when they are there, else downloaded into it with their checksums.

tensorflow-datasets fetches and shows the progress. Each file moves to its place when it is whole, so a second attempt
fetches only what the first did not finish; what is not whole is removed, with the folders made for it.
"""
import os
import pathlib
import shutil
import tarfile
from typing import NamedTuple

from absl import logging

from virtual_tf.data.federated import DataError

DATA_DIR = '~/.cache/virtual_tf'   # where raw and prepared files go unless told otherwise
_TIMEOUT = 10   # seconds to wait for a first answer


class RemoteFile(NamedTuple):
    """A published file; the checksum is the SHA-256 of what is downloaded, '' where none is published."""
    name: str
    url: str
    sha256: str = ''


def folder_of(data_dir, name):
    """Where the raw files of a data set belong."""
    return pathlib.Path(data_dir).expanduser() / name


def is_writable(folder):
    """Whether files may be put into a folder; one without write bits is meant to stay as it is, also by root."""
    return folder.is_dir() and bool(folder.stat().st_mode & 0o222) and os.access(folder, os.W_OK)


def fetch(data_dir, folder, files, download=True):
    """Paths of the files under data_dir/folder, in order; downloads those that are missing."""
    target = folder_of(data_dir, folder)
    missing = [file for file in files if not (target / file.name).is_file()]
    if missing:
        _fetch_missing(target, missing, download)
    return [target / file.name for file in files]


def fetch_unpacked(data_dir, folder, names, archive, download=True):
    """Paths of files that are published inside a tar archive; unpacks it beside itself when one is missing."""
    target = folder_of(data_dir, folder)
    if not all((target / name).is_file() for name in names):
        path, = fetch(data_dir, folder, (archive,), download)
        _unpack(path, names)
    return [target / name for name in names]


def _fetch_missing(target, files, download):
    lacking = f'{target} lacks {", ".join(file.name for file in files)}'
    remedy = (f'fetch {", ".join(file.url for file in files)} by hand into {target}, or point --data_dir to a root '
              f'whose folder {target.name} has what is missing')
    if not download:
        raise DataError(f'{lacking}, and downloads are off; use --download, {remedy}')
    existing = next(folder for folder in (target, *target.parents) if folder.exists())
    if not is_writable(existing):
        raise DataError(f'{lacking}, and {existing} is read-only; {remedy}')
    import requests
    from tensorflow_datasets.core.download import download_manager, util

    made = [folder for folder in (target, *target.parents) if not folder.exists()]
    scratch = target / '.download'
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        for file in files:
            # tfds tries an unreachable host for minutes before it gives up; one question tells at once.
            requests.head(file.url, timeout=_TIMEOUT, allow_redirects=True)
            manager = download_manager.DownloadManager(download_dir=scratch, extract_dir=scratch)
            path = manager.download(file.url)
            _check(path, file)
            os.replace(path, target / file.name)
    except (OSError, util.DownloadError, download_manager.NonMatchingChecksumError) as error:
        raise DataError(f'{lacking}, and the download failed ({type(error).__name__}); {remedy}') from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        for folder in made:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def _check(path, file):
    from tensorflow_datasets.core.download import checksums

    found = checksums.compute_url_info(path).checksum
    if not file.sha256:
        logging.warning('no checksum is published for %s; the SHA-256 of what came is %s', file.url, found)
    elif found != file.sha256:
        raise DataError(f'{file.url} gave a file with SHA-256 {found} instead of {file.sha256}; try again later, or '
                        f'get the right one elsewhere and name it {file.name}')


def _unpack(path, names):
    """Writes the members of these names beside the archive, each at once."""
    partial = path.with_name('.unpacking')
    try:
        with tarfile.open(path) as archive:
            members = {pathlib.PurePosixPath(member.name).name: member for member in archive if member.isfile()}
            for name in names:
                if name not in members:
                    raise DataError(f'{path} holds no {name}; delete it and fetch it again')
                with archive.extractfile(members[name]) as source, open(partial, 'wb') as copy:
                    shutil.copyfileobj(source, copy)
                os.replace(partial, path.with_name(name))
    except PermissionError as error:
        raise DataError(f'{path} cannot be unpacked where it is ({error}); unpack it by hand') from error
    except (tarfile.TarError, OSError, EOFError) as error:
        raise DataError(f'{path} is not a complete tar archive ({error}); delete it and fetch it again') from error
    finally:
        partial.unlink(missing_ok=True)
