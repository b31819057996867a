"""A client's own data, and what it tells of it; and the server's picture of data that is elsewhere."""
import numpy as np

from virtual_tf import data
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.data.federated import DataError, FederatedDataset, Split
from virtual_tf.deploy.messages import Introduction


def load(number, source, data_dir, settings):
    """The data set of one client: of a source such as npz:FILE that holds it alone, or its part of a named one."""
    if not source:
        whole = data.load(data_dir, settings)
        if not 0 <= number < len(whole.clients):
            raise DataError(f'client {number} is none of the {len(whole.clients)} of {settings.dataset}; number the '
                            'clients from 0')
        return whole.part([number])
    if settings.standardize == 'global':
        raise DataError('standardize=global needs the data of all clients in one place; use standardize=client')
    if settings.split:
        raise DataError(f'split={settings.split} regroups the data of all clients in one place; leave split out')
    return data.load_alone(data_dir, settings, source)


def introduce(number, dataset):
    """The Introduction of a client with this data set."""
    splits = {'train': dataset.train, 'test': dataset.test, 'validation': dataset.validation}
    return Introduction(
        number, dataset.clients[0], list(dataset.input_shape), dataset.train.x.dtype.str,
        list(dataset.train.y.shape[1:]), dataset.num_classes,
        {name: (len(split.y), int(split.targets()[0])) for name, split in splits.items() if split})


def elsewhere(name, introductions):
    """A FederatedDataset that has no examples, but the clients, sizes and shapes of those who introduced themselves."""
    introductions = sorted(introductions, key=lambda introduction: introduction.client)
    first = introductions[0]
    for other in introductions[1:]:
        for field in ('input_shape', 'input_type', 'target_shape'):
            if getattr(other, field) != getattr(first, field):
                raise VirtualTfError(f'client {other.client} ({other.name}) has {field} {getattr(other, field)}, '
                                     f'client {first.client} has {getattr(first, field)}; prepare all data alike')
    splits = {split: _outline([introduction.sizes[split] for introduction in introductions], first)
              for split in first.sizes}
    return FederatedDataset(name, tuple(introduction.name for introduction in introductions), splits['train'],
                            splits['test'], max(introduction.num_classes for introduction in introductions),
                            splits.get('validation'))


def _outline(sizes, introduction):
    """A Split of so many examples and targets a client [(examples, targets)], of which x is nowhere."""
    shape = introduction.target_shape
    y = [np.where(np.arange(examples * int(np.prod(shape, dtype=int))) < targets, 0, -1).astype(np.int32)
         for examples, targets in sizes]
    return Split(np.zeros([0, *introduction.input_shape], introduction.input_type),
                 np.concatenate(y).reshape([-1, *shape]), np.cumsum([0, *(examples for examples, _ in sizes)]))
