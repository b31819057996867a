"""The server's ledger as part of its checkpoints: a file for each client and head, with r of that version.

    checkpoints/clients/<client>.<head>     as the simulator has <client>.<version>
    checkpoints/federation                  id of the run, and how often its server was started
    checkpoints/introductions               what each client said of its data
"""
import time
import uuid
from typing import NamedTuple

import numpy as np

from virtual_tf.core import safe_files
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.deploy.messages import Introduction
from virtual_tf.deploy.protocol import START, Ledger


class Start(NamedTuple):
    """What names this start of a server."""
    run: str           # one for all starts that continue each other
    generation: int    # greater than that of every start before


def next_start(folder):
    """The Start after the one that the folder of checkpoints knows of; without any, that of a new run."""
    path = folder / 'federation'
    known = Start(**safe_files.read_record(path)[0]) if path.exists() else Start(uuid.uuid4().hex, 0)
    # The clock too, so that not even a folder that was put back from a backup repeats a generation.
    start = known._replace(generation=max(known.generation + 1, int(time.time())))
    folder.mkdir(parents=True, exist_ok=True)
    with safe_files.replacing(path) as file:
        safe_files.write_record(file, start._asdict(), [])
    return start


def remember(folder, introductions):
    """Keeps {client: Introduction}, so that a run can go on while some of them are away."""
    said = [list(introductions[client]) for client in sorted(introductions)]
    with safe_files.replacing(folder / 'introductions') as file:
        safe_files.write_record(file, {'introductions': said}, [])


def recall(folder):
    """What `remember` has kept in a folder of checkpoints; {} if there is nothing."""
    path = folder / 'introductions'
    found = safe_files.read_record(path)[0]['introductions'] if path.exists() else []
    found = [Introduction(*fields) for fields in found]
    return {one.client: one._replace(sizes={name: tuple(pair) for name, pair in one.sizes.items()}) for one in found}


class FolderLedger(Ledger):
    """Heads and r in files of a folder; r is bytes."""

    def __init__(self, folder):
        super().__init__()
        self._folder = folder

    def __contains__(self, client):
        return False     # no client's state is here

    def save(self):
        self._folder.mkdir(parents=True, exist_ok=True)
        for client, head in self._heads.items():
            path = self._folder / f'{client}.{head}'
            if not path.exists():
                with safe_files.replacing(path) as file:
                    safe_files.write_record(file, {'client': client, 'version': head},
                                       [np.frombuffer(self._shrinks[head], np.uint8)])
        return super().save()

    def keep(self, manifests):
        super().keep(manifests)
        needed = {f'{client}.{head}' for manifest in (self._heads, *self._kept) for client, head in manifest.items()}
        for path in self._folder.glob('[0-9]*.[0-9]*'):
            if path.name not in needed:
                path.unlink()

    def restore(self, manifest, kept):
        super().restore(manifest, kept)
        for client, head in manifest.items():
            header, arrays = safe_files.read_record(self._folder / f'{client}.{head}')
            if header != {'client': client, 'version': head} or START == head:
                raise VirtualTfError(f'{self._folder} holds a run of another kind; choose another output_dir')
            self._shrinks[head] = arrays[0].tobytes()
