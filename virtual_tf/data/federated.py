"""The one data type: clients with training and test examples, ragged, on the host; and cohorts of them for a round."""
import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from virtual_tf.core import random_streams
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.data.cohorts import Cohort, plan_batches, steps_per_round

TEST_SHARE = 0.25   # the paper's 75/25


class DataError(VirtualTfError):
    """Data that is missing or malformed."""


class Split(NamedTuple):
    """Examples of all clients, one client after the other; client i has rows offsets[i] to offsets[i + 1]."""
    x: np.ndarray
    y: np.ndarray        # integers; negative is no target (padding of a sequence)
    offsets: np.ndarray  # [K + 1]

    @classmethod
    def of(cls, pairs):
        """From a list of (x, y), one a client."""
        xs, ys = zip(*pairs)
        return cls(np.concatenate(xs), np.concatenate(ys), np.cumsum([0, *map(len, ys)]))

    def client(self, i):
        rows = slice(self.offsets[i], self.offsets[i + 1])
        return self.x[rows], self.y[rows]

    def sizes(self):
        """Number of examples of each client [K]."""
        return np.diff(self.offsets)

    def targets(self):
        """Number of real targets of each client [K]: examples, or characters of its sequences."""
        real = (self.y >= 0).reshape(len(self.y), -1).sum(axis=1)
        return np.add.reduceat(np.append(real, 0), self.offsets[:-1]) * (self.sizes() > 0)

    def padded(self, ids, length):
        """x, y of these clients at one length: [C, N, …]; y is -1 beyond a client's own."""
        x = np.zeros([len(ids), length, *self.x.shape[1:]], self.x.dtype)
        y = np.full([len(ids), length, *self.y.shape[1:]], -1, self.y.dtype)
        for row, i in enumerate(ids):
            own_x, own_y = self.client(i)
            x[row, :len(own_x)], y[row, :len(own_y)] = own_x, own_y
        return x, y


@dataclasses.dataclass(frozen=True)
class FederatedDataset:
    name: str
    clients: tuple          # a name for each client
    train: Split
    test: Split
    num_classes: int
    validation: Split | None = None
    caveat: str = ''        # what a reader of results on this data has to know
    unseen: 'FederatedDataset | None' = None     # of clients that take no part and are tested at the end

    @property
    def input_shape(self):
        return self.train.x.shape[1:]

    def tested(self):
        """{prefix of its metrics: Split} of what models are tested on: test data, and what was held out."""
        return {'': self.test} | ({'val_': self.validation} if self.validation else {})

    @functools.cached_property
    def _targets(self):
        """Of the training data [K]; counting them reads every example, which is too much for every round."""
        return self.train.targets()

    def prior_weights(self, weighting):
        """Exponents w_i [K] with Σ w_i = 1: 1/K, or N_i/N."""
        sizes = self._targets if weighting == 'size' else np.ones(len(self.clients))
        return (sizes / sizes.sum()).astype(np.float32)

    def steps_of(self, round_number, settings):
        """How much of its delta each client sends in a round [K]: 1/(1 + t/τ), and by size K·N_i/N times that."""
        decay = 1.0 / (1.0 + (round_number - 1) / settings.server_decay) if settings.server_decay else 1.0
        sizes = self._targets if settings.get('delta_weighting', 'uniform') == 'size' else np.ones(len(self.clients))
        return (decay * sizes / sizes.mean()).astype(np.float32)

    def hold_out(self, fraction, seed):
        """Moves that share of each client's training examples to the validation split, at least one of two."""
        if not fraction:
            return self
        kept, held = [], []
        for i, size in enumerate(self.train.sizes()):
            order = random_streams.make_generator(seed, random_streams.VALIDATION, i).permutation(size)
            count = min(max(1, round(fraction * size)), size - 1)
            x, y = self.train.client(i)
            held.append((x[order[:count]], y[order[:count]]))
            kept.append((x[order[count:]], y[order[count:]]))
        return dataclasses.replace(self, train=Split.of(kept), validation=Split.of(held))

    def keep_out(self, fraction, seed):
        """Moves that share of the clients, at least one and drawn by seed, to `unseen`."""
        if not fraction:
            return self
        count = len(self.clients)
        if count < 2:
            raise DataError(f'unseen_fraction = {fraction} keeps a client out, and {self.name} has only {count}; use 0')
        order = random_streams.make_generator(seed, random_streams.UNSEEN).permutation(count)
        kept_out = min(max(1, round(fraction * count)), count - 1)
        return dataclasses.replace(self.part(np.sort(order[kept_out:])), unseen=self.part(np.sort(order[:kept_out])))

    def standardise(self, by):
        """Features of mean 0 and deviation 1 over the training examples of each client, or of all ('global').

        'center': of mean 0 over those of each client, at their own scale.
        """
        if by == 'none':
            return self
        if not np.issubdtype(self.train.x.dtype, np.floating):
            raise DataError(f'standardize={by} is for features, and {self.name} has ids; use standardize=none')
        if by in ('client', 'center'):
            moments = [_moments(self.train.client(i)[0]) for i in range(len(self.clients))]
            if by == 'center':
                moments = [(mean, 1.0) for mean, _ in moments]
            return dataclasses.replace(self._scaled(moments), unseen=self.unseen and self.unseen.standardise(by))
        moments = [_moments(self.train.x)]     # of those who take part, for all
        return dataclasses.replace(self._scaled(moments), unseen=self.unseen and self.unseen._scaled(moments))

    def _scaled(self, moments):
        """With features by (mean, scale) of each client, or of all where there is one pair."""
        def scaled(split):
            if split is None:
                return None
            parts = [split.x] if len(moments) == 1 else [split.client(i)[0] for i in range(len(self.clients))]
            x = [((part - mean) / scale).astype(split.x.dtype) for part, (mean, scale) in zip(parts, moments)]
            return split._replace(x=np.concatenate(x))

        return dataclasses.replace(self, train=scaled(self.train), test=scaled(self.test),
                                   validation=scaled(self.validation))

    def part(self, ids):
        """The data set of these clients alone."""
        return dataclasses.replace(self, clients=tuple(self.clients[i] for i in ids), **{
            name: split and Split.of([split.client(i) for i in ids]) for name, split in (
                ('train', self.train), ('test', self.test), ('validation', self.validation))})

    def cohort(self, ids, round_number, settings, numbers=None, weights=None, steps_sent=None):
        """What the selected clients train on in a round, in shapes that are the same for every cohort.

        Clients that are part of a larger federation have the `numbers`, `weights` [C] and `steps_sent` [C] of there.
        """
        numbers = ids if numbers is None else numbers
        if weights is None:
            weights = self.prior_weights(settings.get('prior_weighting', 'uniform'))[ids]
        if steps_sent is None:
            steps_sent = self.steps_of(round_number, settings)[ids]
        sizes = self.train.sizes()
        length = int(sizes.max())
        steps = steps_per_round(length, settings.epochs, settings.batch_size)
        x, y = self.train.padded(ids, length)
        generators = (random_streams.make_generator(settings.seed, random_streams.SHUFFLE, round_number, number)
                      for number in numbers)
        batches = np.stack([plan_batches(sizes[i], settings.epochs, settings.batch_size, steps, generator)
                            for i, generator in zip(ids, generators)])
        keys = random_streams.make_keys(settings.seed, random_streams.NOISE, round_number, ids=numbers)
        return Cohort(x, y, self._targets[ids].astype(np.int32), weights, batches, keys, steps_sent)


def _moments(x):
    """Mean and deviation of each feature; a constant one has the deviation 1, as it would be 0 or rounding alone."""
    mean, scale = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    return mean, np.where(scale > np.finfo(np.float32).eps * np.abs(mean), scale, 1.0)


def split_in_two(x, y, fraction, generator):
    """A seeded split ((x, y), (x, y)) with `fraction` of each class in the second part, as far as it divides.

    The second part gets at least one of two.
    """
    second = np.zeros(len(y), bool)
    carried = 0.0
    strata = y if y.ndim == 1 else np.zeros(len(y))     # a sequence has no one class
    for label in np.unique(strata):
        rows = generator.permutation(np.flatnonzero(strata == label))
        # Rounding errors are carried from class to class, so the whole is split in the right proportion too.
        carried += fraction * len(rows)
        count = round(carried)
        carried -= count
        second[rows[:count]] = True
    if len(y) > 1 and not second.any():
        second[generator.integers(len(y))] = True
    return (x[~second], y[~second]), (x[second], y[second])
