"""Label skew: the examples of any data set regrouped into clients that differ in their mix of classes.

`dirichlet:α` divides every class over the clients by proportions ~ Dirichlet(α, …, α) (Yurochkin et al. 2019): for
α → 0 a class is one client's alone, for α → ∞ all clients are alike. `classes:n` gives each client n classes, and the
clients that have a class equal parts of it (Li et al. 2022). Then each client is split 75/25.
"""
import numpy as np

from virtual_tf.core.random_streams import LABEL_SKEW, make_generator
from virtual_tf.data.example_table import Table, federate
from virtual_tf.data.federated import DataError

MIN_EXAMPLES = 10     # of a client, so that it has some to train on, to hold out and to test
DRAWS = 100           # of Dirichlet proportions, at most, until every client has that many
_MAX_ALPHA = 1e9      # where clients are alike to the last example


def parse(split):
    """('dirichlet', α) or ('classes', n) of such a text with a colon; None of an empty one."""
    if not split:
        return None
    kind, _, number = split.partition(':')
    try:
        value = {'dirichlet': float, 'classes': int}[kind](number)
    except (KeyError, ValueError):
        value = 0
    if not 0 < value <= _MAX_ALPHA:
        raise DataError(f'split must be dirichlet:α with a number α > 0 (at most {_MAX_ALPHA:g}), as dirichlet:0.1, or '
                        f'classes:n with a whole number n > 0, as classes:2; got {split!r}')
    return kind, value


def regroup(dataset, split, clients, seed):
    """The data set with its training and test examples dealt anew to so many clients; as it is without a split."""
    if not split:
        return dataset
    kind, value = parse(split)
    if dataset.train.y.ndim > 1:
        raise DataError(f'split={split} goes by the label of an example, and {dataset.name} has sequences; leave split '
                        'out')
    x, y = (np.concatenate(parts) for parts in zip(dataset.train[:2], dataset.test[:2]))
    if clients * MIN_EXAMPLES > len(y):
        raise DataError(f'split_clients={clients} is too many for the {len(y)} examples of {dataset.name}, as each is '
                        f'to have {MIN_EXAMPLES}; give at most {len(y) // MIN_EXAMPLES}')
    sizes = np.bincount(y, minlength=dataset.num_classes)
    generator = make_generator(seed, LABEL_SKEW)
    counts = {'dirichlet': dirichlet_counts, 'classes': class_counts}[kind](sizes, value, clients, generator)
    made = counts.shape[1]
    if not made:
        raise DataError(f'split={split} cannot be had from {dataset.name}: {np.count_nonzero(sizes)} classes have '
                        f'examples, and a client needs {value} with {-(-MIN_EXAMPLES // value)} of each; ask for fewer')
    client = deal(y, counts, generator)
    kept = client >= 0
    said = f'regrouped by {split} into {made} clients'
    if made < clients:
        said += f' of {clients} asked for'
    if not kept.all():
        said += f', {np.count_nonzero(~kept)} of {len(y)} examples left out'
    table = Table(x[kept], y[kept], client[kept], tuple(f'client {i}' for i in range(made)), dataset.num_classes,
                  caveat='; '.join(filter(None, (dataset.caveat, said))),
                  notes=(said,) if made < clients or not kept.all() else ())
    return federate(dataset.name, table, seed)


def dirichlet_counts(sizes, alpha, clients, generator):
    """Examples of each class for each client [classes, K]; all of `sizes`, but for clients with too few.

    Proportions are drawn until every client has enough. If that never happens, the draw that came nearest counts, and
    the clients that have too few there are left out with what they have.
    """
    best = np.zeros([len(sizes), 0], int)
    for _ in range(DRAWS):
        shares = generator.dirichlet(np.full(clients, alpha), len(sizes))
        # Rounded bounds, not rounded parts, so that the parts sum to the whole.
        bounds = np.rint(np.cumsum(shares, axis=1) * sizes[:, np.newaxis]).astype(int)
        counts = np.diff(bounds, axis=1, prepend=0)
        enough = counts.sum(axis=0) >= MIN_EXAMPLES
        if np.count_nonzero(enough) > best.shape[1]:
            best = counts[:, enough]
        if enough.all():
            break
    return best


def class_counts(sizes, per_client, clients, generator):
    """Examples of each class for each client [classes, K], every client with exactly `per_client` classes.

    Classes have equally many clients as far as they have examples for so many. Where all of them together have not,
    there are fewer clients; a class is left out only where clients times `per_client` is below the number of classes.
    """
    most = sizes // -(-MIN_EXAMPLES // per_client)     # clients that a class can serve
    possible = np.arange(1, clients + 1)
    clients = possible[np.minimum(most, possible[:, np.newaxis]).sum(axis=1) >= per_client * possible].max(initial=0)
    left = _level(np.minimum(most, clients), per_client * clients, generator)
    owned = np.zeros([len(sizes), clients], bool)
    for i in range(clients):
        # The classes that most clients still have to get: so the last client finds as many different ones as the first.
        chosen = np.lexsort((generator.random(len(left)), -left))[:per_client]
        owned[chosen, i] = True
        left[chosen] -= 1
    owners = np.maximum(owned.sum(axis=1, keepdims=True), 1)
    # The first owners of a class have one example more where it does not divide.
    return owned * (sizes[:, np.newaxis] // owners + (np.cumsum(owned, axis=1) <= sizes[:, np.newaxis] % owners))


def deal(y, counts, generator):
    """The client of each example [N], -1 for none, with counts[c, i] random examples of class c for client i."""
    client = np.full(len(y), -1)
    order = np.argsort(y, kind='stable')
    starts = np.searchsorted(y[order], np.arange(len(counts) + 1))
    for count, start, end in zip(counts, starts, starts[1:]):
        owners = np.repeat(np.arange(len(count)), count)
        client[generator.permutation(order[start:end])[:len(owners)]] = owners
    return client


def _level(limits, total, generator):
    """Whole numbers of this sum, each at most its limit and otherwise as equal as they can be."""
    low, high = 0, int(limits.max(initial=0))
    while low < high:     # the highest level that does not exceed the sum
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(limits, middle).sum() <= total else (low, middle - 1)
    values = np.minimum(limits, low)
    more = generator.permutation(np.flatnonzero(limits > low))[:total - values.sum()]
    values[more] += 1
    return values
