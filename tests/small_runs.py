"""Small data for each kind of network, finished runs of a moment, and models where no run is needed."""
import numpy as np
from toys import make_settings

from virtual_tf.data.federated import FederatedDataset, Split
from virtual_tf.methods import registry
from virtual_tf.runs import driver
from virtual_tf.runs.model import Model, Parts

SHAPES = {'mlp': (3,), 'conv': (4, 4, 2), 'lstm': (3,)}
CLASSES = 4
NEVER = 'client d'     # is not selected in two rounds with the seed that `play` has


def make_data(model, seed=0):
    """Four clients with examples for a model."""
    generator = np.random.default_rng(seed)

    def client(size):
        if model == 'lstm':
            x = generator.integers(CLASSES, size=(size, *SHAPES[model])).astype(np.int32)
            return x, np.where(generator.random(x.shape) < 0.2, -1, (x + 1) % CLASSES).astype(np.int32)
        x = generator.normal(size=(size, *SHAPES[model])).astype(np.float32)
        return x, generator.integers(CLASSES, size=size).astype(np.int32)

    train, test = (Split.of([client(size) for size in sizes]) for sizes in ((6, 4, 5, 4), (3, 5, 4, 6)))
    return FederatedDataset(f'small {model}', tuple(f'client {letter}' for letter in 'abcd'), train, test, CLASSES)


def settings_of(model, method, **changes):
    return make_settings(**{'method': method, 'model': model, 'rounds': 2, 'epochs': 1, 'seed': 7, 'private': 'joint',
                            'mean_init': 'glorot', 'init_scale': 0.05} | changes)


def play(folder, model, method, **changes):
    """(settings, data, history) of a run of two rounds."""
    settings, dataset = settings_of(model, method, **changes), make_data(model)
    _, history = driver.run(settings, dataset, folder, progress=False)
    return settings, dataset, history


def fresh_models(model, method, **changes):
    """(server, client) as they are before the first round: all that an export needs, private path included."""
    return fresh_models_of(model, model, method, **changes)


def fresh_models_of(model, data, method, **changes):
    """fresh_models of any model, on the data that is for another."""
    dataset = make_data(data)
    network, algorithm, settings = registry.build(settings_of(model, method, **changes), dataset)
    parts = Parts(network, algorithm, settings, dataset)
    server = algorithm.init(settings.seed)
    client = algorithm.init_clients(server, np.array([0.25], np.float32), np.array([[5, 6]], np.uint32))
    return Model(parts, server, 'server', round=0), Model(parts, client, 'client a', 0, 0)
