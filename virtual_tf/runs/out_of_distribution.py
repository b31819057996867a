"""Does a model know what it does not know: is it less sure of examples that are not like those it has learnt from?

The answer is an AUROC: how often a foreign example is less certain than one of the run's test data, by the entropy of
the prediction or by the mutual information of label and weights (networks/uncertainty.py); 0.5 is chance.
"""
import numpy as np

from virtual_tf import data
from virtual_tf.core import random_streams
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.methods import registry
from virtual_tf.simulator.metrics.ranking import area_under_curve

SHUFFLED = 'shuffled'     # the run's own test examples, the features of each in an order of its own
SCORES = {'entropy': 'entropy', 'entropy_sampled': 'entropy, sampled', 'mutual_information': 'mutual information'}
SAMPLES = 10
FILE = 'ood.json'          # in the run's folder


def measure(run, against, data_dir, samples=SAMPLES):
    """{score: AUROC} of the server of an OpenedRun: entropy at the means, and over weight samples if it has any."""
    dataset = run.load_data()
    if dataset.train.y.ndim > 1:
        raise VirtualTfError(f'{dataset.name} has sequences, and this compares examples with one label each; choose '
                             'another run')
    inside = dataset.test.x
    outside = shuffled(inside, run.settings.seed) if against == SHUFFLED else foreign(run, against, data_dir, inside)
    pairs = {'entropy': [run.server.predict(x).entropy for x in (inside, outside)]}
    if samples and registry.find(run.settings.method).gaussian:
        known, unknown = (run.server.predict(x, samples=samples) for x in (inside, outside))
        pairs |= {'entropy_sampled': (known.entropy, unknown.entropy),
                  'mutual_information': (known.mutual_information, unknown.mutual_information)}
    return {name: auroc(*pair) for name, pair in pairs.items()}


def shuffled(x, seed):
    """Examples [N, …] with the features of each in another order."""
    generator = random_streams.make_generator(seed, random_streams.UNSEEN)
    return generator.permuted(x.reshape(len(x), -1), axis=1).reshape(x.shape)


def foreign(run, against, data_dir, inside):
    """The test examples of another data set, prepared as the run's are."""
    plain = {'split': '', 'unseen_fraction': 0.0, 'validation_fraction': 0.0}
    found = data.load(data_dir, run.settings.replace(dataset=against, **plain)).test.x
    if found.shape[1:] != inside.shape[1:] or found.dtype != inside.dtype:
        raise VirtualTfError(f'{against} has examples of shape {found.shape[1:]} and type {found.dtype}, those of '
                             f'{run.settings.dataset} have {inside.shape[1:]} and {inside.dtype}; choose data of the '
                             f'same shape, or {SHUFFLED}')
    return found


def auroc(inside, outside):
    """P(score of an outsider > that of an insider) + P(equal)/2, exactly."""
    _, place = np.unique(np.concatenate([inside, outside]), return_inverse=True)
    counts = [np.bincount(part, minlength=place.max() + 1) for part in np.split(place, [len(inside)])]
    return float(area_under_curve(*map(np.float64, counts)))
