"""Cohorts: the data of the clients of a round, and the order in which each sees its own."""
from typing import NamedTuple

import numpy as np
import tensorflow as tf


class Cohort(NamedTuple):
    """The data of the selected clients and the order in which they see it."""
    x: tf.Tensor         # [C, N, …] examples, padded to the largest client of the data set
    y: tf.Tensor         # [C, N, …] integer targets
    size: tf.Tensor      # [C] number of real training targets, N_i
    weight: tf.Tensor    # [C] exponent w_i of prior and initial posterior, 1/K or N_i/N
    batches: tf.Tensor   # [C, T, B] positions in x; -1 is no example, a row of -1 no step
    keys: tf.Tensor      # [C, 2] random stream of each client for this round
    step: tf.Tensor      # [C] how much of a delta is sent: the server's decay, and the client's size if that counts


def steps_per_round(size, epochs, batch_size):
    """Steps that a client of `size` examples takes; the partial last batch counts."""
    return epochs * -(-size // batch_size)


def plan_batches(size, epochs, batch_size, steps, generator):
    """A fresh shuffle for each epoch as positions [steps, batch_size]; -1 pads the last batch and the steps after."""
    per_epoch = -(-size // batch_size)
    order = np.full([epochs, per_epoch * batch_size], -1, np.int32)
    order[:, :size] = generator.permuted(np.tile(np.arange(size, dtype=np.int32), (epochs, 1)), axis=1)
    plan = np.full([steps, batch_size], -1, np.int32)
    plan[:epochs * per_epoch] = order.reshape(-1, batch_size)
    return plan
