"""What methods whose weights are plain tensors share: SGD on a client's loss, and the mean of what clients send.

A client minimises  F_i(w) + (l2/2)·‖w − anchor‖²  with F_i its mean loss; of the weights some may be held still.
The server moves by η_s times the mean of the clients' differences, weighted by client size:
s ← s + η_s · Σ N_i (s_i − s) / Σ N_i. A delta is the pair (N_i (s_i − s), N_i): summing is all that aggregation does.
"""
from functools import partial
from typing import NamedTuple

import tensorflow as tf

from virtual_tf.core import random_streams
from virtual_tf.core.client_axis import aggregate, all_finite, for_each_client, keep_accepted, over_clients
from virtual_tf.methods import guards, local_sgd
from virtual_tf.methods.interface import Algorithm, Training, WeighedDelta
from virtual_tf.methods.rounding import round_values
from virtual_tf.networks import gated
from virtual_tf.networks.likelihood import expected_loss

_NOTHING = gated.Weights({}, {}, {})


class Trained(NamedTuple):
    """What came of a client's training; leaves [C, …]."""
    weights: gated.Weights
    fit: local_sgd.Fit
    finite: tf.Tensor        # whether all weights were, before a guard could take them back
    shortened: tf.Tensor     # whether a guard took some of it back, 0 or 1


def train(network, settings, start, cohort, l2=0.0, anchor=None, held=_NOTHING, private='none', epochs=None):
    """SGD from `start`, gated.Weights of tensors, beside others that are `held` still.

    anchor: {name: […] or [C, …]} for the shared weights; epochs: of those that the cohort has planned, or repeats.
    """
    def loss_of(weights, x, y, mask, step):
        whole = gated.Weights(*(still | moving for still, moving in zip(held, weights)))
        return expected_loss(network, whole, private, x, y, mask, random_streams.fold_in(cohort.keys, step))

    def gradient(weights, x, y, mask, step):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            loss, sums = loss_of(weights, x, y, mask, step)
        gradients = tape.gradient(loss, weights)
        if l2:
            gradients = gradients._replace(shared={
                name: value + l2 * (weights.shared[name] - anchor[name]) for name, value in gradients.shared.items()})
        return gradients, sums

    def objective(weights):
        loss = local_sgd.mean_loss(lambda *batch: loss_of(weights, *batch)[1], cohort, settings.epochs)
        return loss + 0.5 * l2 * squared_distance(weights.shared, anchor) if l2 else loss

    planned = cohort if epochs is None else local_sgd.with_epochs(cohort, settings.epochs, epochs)
    found, fit = local_sgd.sgd(
        gradient, local_sgd.descend(settings.client_lr, _legal), start, planned, settings.max_gradient_norm)
    finite = all_finite(found)
    kept, shortened = guards.kept(settings, objective, guards.line(start, found), found)
    return Trained(kept, fit, finite, shortened)


def _legal(weights):
    """Gates are never negative."""
    return weights._replace(gates=tf.nest.map_structure(tf.nn.relu, weights.gates))


def squared_distance(weights, anchor):
    """‖w − anchor‖² of each client [C]."""
    return tf.add_n([tf.reduce_sum(tf.square(value - anchor[name]), axis=list(range(1, value.shape.rank)))
                     for name, value in weights.items()])


def initial_weights(network, settings, seed):
    """The weights {name: […]} before the first round, by seed."""
    keys = random_streams.make_keys(seed, random_streams.INITIAL_MEANS)
    means = gated.initial_means(network, keys, settings.mean_init, settings.mean_init_scale)
    return {name: mean[0] for name, mean in means.items()}


def training(runs, *states):
    """The Training of a round with these runs, all Trained: loss and accuracy are the first one's, counts of all.

    A client is accepted if what it found and all further states [C, …] are finite.
    """
    first, finite = runs[0].fit, all_finite(([(run.weights, run.fit.loss) for run in runs], states))
    return Training(first.loss, first.accuracy, tf.reduce_all([finite, *(run.finite for run in runs)], axis=0),
                    {'clipped_steps': sum(run.fit.clipped for run in runs),
                     'shortened_updates': sum(run.shortened for run in runs)})


def weighed_deltas(settings, server, found, cohort):
    """What clients send of `found`, a nest [C, …] like the server's state […]."""
    size = tf.cast(cohort.size, tf.float32)
    return round_values(WeighedDelta(tf.nest.map_structure(
        lambda new, old: over_clients(cohort.step * size, new) * (new - old), found, server), size), settings.values)


def server_update(settings, server, delta):
    # A round in which every client was dropped moves nothing.
    scale = settings.server_lr / tf.maximum(delta.size, 1.0)
    return tf.nest.map_structure(lambda value, change: value + scale * change, server, delta.weighted), {}


def no_delta(server):
    return WeighedDelta(tf.nest.map_structure(tf.zeros_like, server), tf.constant(0.0))


def commit(clients, proposals, deltas, shrink, accepted):
    """A client keeps what it proposed, unless it was dropped."""
    return keep_accepted(proposals, clients, accepted)


def server_model(server):
    return gated.without_private(for_each_client(server, 1))


def personal_models(network, settings, client_update):
    """The Algorithm of methods whose clients keep a whole model beside what they send: it starts as the server's."""
    return Algorithm(
        partial(initial_weights, network, settings), lambda server, weight, keys: for_each_client(server, len(weight)),
        local_sgd.compiled(partial(client_update, network, settings), settings), aggregate,
        partial(server_update, settings), commit, server_model, client_models=gated.without_private, no_delta=no_delta)
