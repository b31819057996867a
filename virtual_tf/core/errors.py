"""The data types that modules share. Clients lie on the leading axis: [C, …] for a cohort, [K, …] for all."""
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf


class VirtualTfError(Exception):
    """What a user can put right: a sentence with the argument, its value and the way out."""


class RunError(VirtualTfError):
    """What stopped a run whose settings are right, such as a full disk; it can be continued once that is put right."""


class Interrupted(Exception):
    """The run was asked to stop, and did so between two rounds."""


class Cohort(NamedTuple):
    """The data of the selected clients and the order in which they see it."""
    x: tf.Tensor         # [C, N, …] examples, padded to the largest client of the data set
    y: tf.Tensor         # [C, N, …] integer targets
    size: tf.Tensor      # [C] number of real training targets, N_i
    weight: tf.Tensor    # [C] exponent w_i of prior and initial posterior, 1/K or N_i/N
    batches: tf.Tensor   # [C, T, B] positions in x; -1 is no example, a row of -1 no step
    keys: tf.Tensor      # [C, 2] random stream of each client for this round


class Training(NamedTuple):
    """What happened to each client in a round; all leaves [C]."""
    loss: tf.Tensor        # mean negative log-likelihood over the round
    accuracy: tf.Tensor
    accepted: tf.Tensor    # False: training gave a number that is not finite, the client was dropped
    details: dict          # further [C] columns of the algorithm, for the logs


class Algorithm(NamedTuple):
    """A federated method as functions of state; nothing here owns a variable.

    init(seed) → server state
    init_clients(server, weight, keys) → client states [C, …] of clients that were never selected
    client_update(server, clients, cohort) → proposals [C, …], deltas [C, …], Training
    aggregate(deltas, accepted) → one delta, the only thing that the server gets to see
    server_update(server, delta) → server state, shrink
    commit(clients, proposals, deltas, shrink, accepted) → client states as the server has applied them
    server_model(server) → the weights that S tests, client_models(clients) → those that MT tests
    no_delta(server) → the delta that changes nothing
    """
    init: Callable[..., Any]
    init_clients: Callable[..., Any]
    client_update: Callable[..., Any]
    aggregate: Callable[..., Any]
    server_update: Callable[..., Any]
    commit: Callable[..., Any]
    server_model: Callable[..., Any]
    client_models: Callable[..., Any]
    no_delta: Callable[..., Any]
