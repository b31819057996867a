"""Raw files: from <data_dir>/<data set>/ when they are there, else downloaded into it with their checksums."""
import pathlib
import shutil
import tempfile
from typing import NamedTuple

from virtual_tf.data.federated import DataError


class RemoteFile(NamedTuple):
    """A published file; the checksum is the SHA-256 of what is downloaded."""
    name: str
    url: str
    size: int
    sha256: str


def fetch(data_dir, folder, files):
    """Paths of the files under data_dir/folder, in order; downloads the missing ones together."""
    target = pathlib.Path(data_dir).expanduser() / folder
    missing = [file for file in files if not (target / file.name).is_file()]
    if missing:
        _download(target, missing)
    return [target / file.name for file in files]


def _download(target, files):
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core.download import checksums

    infos = {file.url: checksums.UrlInfo(file.size, file.sha256, file.name) for file in files}
    with tempfile.TemporaryDirectory() as scratch:
        manager = tfds.download.DownloadManager(
            download_dir=scratch, url_infos=infos, force_checksums_validation=True)
        try:
            paths = manager.download([file.url for file in files])
        except Exception as error:   # requests, tfds and promise each have errors of their own; all mean the same here
            listing = '\n'.join(f'  {file.url}  →  {target / file.name}' for file in files)
            raise DataError(f'{target} lacks {", ".join(file.name for file in files)}, and the download failed '
                            f'({type(error).__name__}); point --data_dir to a folder that has them, or fetch by hand:\n'
                            + listing) from error
        target.mkdir(parents=True, exist_ok=True)
        for file, path in zip(files, paths):
            shutil.move(path, target / file.name)
