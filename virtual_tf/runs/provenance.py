"""What a result can be traced back to: settings, data, versions, commit."""
import hashlib
import importlib.metadata
import pathlib
import platform
import subprocess

import numpy as np

from virtual_tf.core import plugins, processors

_PACKAGES = ('tensorflow', 'tensorflow-probability', 'tf-keras', 'numpy')


def describe(settings, dataset, sha256):
    """config.json: all settings, the data with its digest, plug-ins, versions, the processor and the commit."""
    return {'settings': settings.to_dict(),
            'data': {'name': dataset.name, 'clients': len(dataset.clients), 'caveat': dataset.caveat,
                     'train_examples': len(dataset.train.y), 'test_examples': len(dataset.test.y),
                     'unseen_clients': len(dataset.unseen.clients) if dataset.unseen else 0,
                     **shapes(dataset), 'sha256': sha256},
            'plugins': plugins.digests(),
            'versions': {'python': platform.python_version()} | {
                name: importlib.metadata.version(name) for name in _PACKAGES},
            'processor': processors.kind(), 'git_commit': git_commit()}


def shapes(dataset):
    """What a network has to know of the examples."""
    return {'input_shape': list(dataset.input_shape), 'input_type': dataset.train.x.dtype.name,
            'target_shape': list(dataset.train.y.shape[1:]), 'num_classes': dataset.num_classes}


def describe_clients(dataset):
    """clients.json: who takes part, and with how many targets; an entry a client in each list."""
    return {'names': list(dataset.clients),
            **{f'{name}_targets': split.targets().tolist() for name, split in (
                ('train', dataset.train), ('test', dataset.test))}}


def identity(simulation):
    """What a run that is continued has to agree with."""
    return {'settings': simulation.settings.to_dict(), 'place': simulation.place, 'data': digest(simulation.dataset),
            'network': {name: list(shape) for name, shape in simulation.network.shapes().items()},
            'plugins': plugins.digests()}


def digest(dataset):
    """SHA-256 of all examples and of who has them."""
    total = hashlib.sha256()
    for part in (dataset, *([dataset.unseen] if dataset.unseen else [])):
        for split in (part.train, part.test, part.validation or ()):
            for array in split:
                total.update(f'{array.dtype.str}{array.shape}'.encode())
                total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return total.hexdigest()


def git_commit():
    """The commit of the source tree, '' outside a checkout."""
    here = pathlib.Path(__file__).parent
    try:
        # --exclude: the commit itself, not the name of a tag.
        answer = subprocess.run(['git', 'describe', '--always', '--dirty', '--abbrev=40', '--exclude=*'], cwd=here,
                                capture_output=True, text=True)
    except FileNotFoundError:
        return ''
    return answer.stdout.strip()
