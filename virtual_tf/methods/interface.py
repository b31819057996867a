"""What a federated method is: functions of state, complete; tests/methods/test_conformance.py drives every method so.

Nothing here owns a variable: the server's state and the clients' states go in and come out, as nests of tensors.
Clients lie on the leading axis, [C, …]. So the same functions serve the simulator (C clients in a call), a worker (a
few) and a device (one), and a checkpoint is the state written down.
"""
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from virtual_tf.core.errors import VirtualTfError


class Training(NamedTuple):
    """What happened to each client in a round; all leaves [C]."""
    loss: tf.Tensor        # mean negative log-likelihood over the round
    accuracy: tf.Tensor
    accepted: tf.Tensor    # False: training gave a number that is not finite, the client was dropped
    details: dict          # further columns [C] for the logs: integers are counts and are summed, floats averaged


class WeighedDelta(NamedTuple):
    """A delta whose sum is to be divided by a sum of sizes, as FedAvg's is.

    Flower refuses one whose size is not the number of targets that the client introduced itself with, and holds
    `weighted`/size against its bound on norms. Any other delta is held against it as it is.
    """
    weighted: dict         # N_i times a difference of weights
    size: tf.Tensor        # N_i


def checked_update(outcome, server):
    """What server_update gave, or a sentence where that is not (server state, shrink)."""
    if not isinstance(outcome, tuple) or len(outcome) != 2 or not isinstance(outcome[1], dict):
        raise VirtualTfError(f'server_update must give (server state, shrink), it gives a {type(outcome).__name__}; '
                             'shrink is {} for most methods')
    if not {*outcome[1]} <= {*server}:
        raise VirtualTfError(f'the shrink that server_update gives has {min(outcome[1])!r}, which is no weight; '
                             'figures for the logs belong into Training.details')
    return outcome


class Algorithm(NamedTuple):
    """A method on one network with its settings.

    Rules that hold for all of it:
    - A client's result depends on its own state, data and keys alone, never on whom it is stacked with.
    - States and deltas are nests (dicts, named tuples) of float tensors with the same structure in every round; what
      travels, server state and deltas, is float32.
    - No randomness but from cohort.keys, `keys` and `seed` (core/random_streams.py).
    """
    # (seed) → server state
    init: Callable[..., Any]
    # (server, weight [C], keys [C, 2]) → states [C, …] of clients that were never selected. Pure: it is asked again
    # whenever such a client is read, with the server of the start.
    init_clients: Callable[..., Any]
    # (server, clients, cohort) → proposals [C, …], deltas [C, …], Training. A tf.function (local_sgd.compiled), since
    # Flower reads the proposals' structure off its trace. Padded steps and targets (data/cohorts.py) change nothing.
    client_update: Callable[..., Any]
    # (deltas, accepted [C]) → the one delta that the server gets to see: the sum over accepted clients. Flower's secure
    # aggregation adds them up itself.
    aggregate: Callable[..., Any]
    # (server, delta) → server state, shrink. It takes the aggregate and nothing of a single client. shrink is {}, or
    # {weight: r} with one r for each element, the share of the delta that was applied. Then the server's state must be
    # a dict {weight: named tuple of tensors of r's shape}, by which Flower packs r for the clients.
    server_update: Callable[..., Any]
    # (clients, proposals, deltas, shrink, accepted) → client states as the server has applied them; a dropped client's
    # is the old one. May come much later than client_update, in another process.
    commit: Callable[..., Any]
    # (server) → the gated.Weights that S tests, [1, …]; None if the server has no whole model: S is then NaN
    server_model: Callable[..., Any] | None
    # (clients) → the gated.Weights that MT tests, [C, …]. Must not depend on shrink: a device tests its model before
    # it can know r.
    client_models: Callable[..., Any]
    # (server) → the delta that changes nothing, which also tells a decoder what structure to expect
    no_delta: Callable[..., Any]
