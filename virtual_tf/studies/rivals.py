"""The study `rivals`: every method at its own best, on data whose clients differ and on data where they hardly do.

Every column has a sweep of its own, all of the same size: the case's two rates by two values of what the method has
of its own, one of them its default; by two steps of the server where it has nothing; by four rates where it has not
even that. The fine-tuned baselines are columns like the others, so they may take other values than the plain ones.
"""
from typing import NamedTuple

from virtual_tf.studies.experiment import experiment, grid

STUDY = 'rivals'
OURS, PLAIN = 'virtual', 'fedavg'     # the columns that others are compared with
RATE = 'client_lr'


class Case(NamedTuple):
    """A federation."""
    rounds: int
    epochs: int
    rates: tuple     # client learning rates of the sweep
    given: dict      # data, and whatever else is not the default there
    unseen: float = 0.2     # share of the clients that take no part


class Column(NamedTuple):
    """A method, and what its sweep varies beside the rate."""
    label: str
    given: dict
    axis: str
    values: tuple           # of the axis; factors of the rate where that is the axis
    tuned: bool = False     # what is deployed goes on for as many epochs as a visit has


CASES = {
    'femnist': Case(40, 20, (0.1, 0.2), {'dataset': 'femnist'}),
    'har': Case(25, 5, (0.02, 0.05), {'dataset': 'har'}),
    'mnist-dirichlet-0.1': Case(25, 5, (0.1, 0.2), {'dataset': 'mnist', 'split': 'dirichlet:0.1'}, 0.1),
    'mnist-dirichlet-5': Case(25, 5, (0.1, 0.2), {'dataset': 'mnist', 'split': 'dirichlet:5'}, 0.1),
}
COLUMNS = {
    'virtual': Column('VIRTUAL', {'method': 'virtual'}, 'kl_weight', (0.01, 0.03), tuned=True),
    'pvi': Column('PVI', {'method': 'virtual', 'preset': 'pvi'}, 'damping', (0.08, 0.16)),
    'fedavg': Column('FedAvg', {'method': 'fedavg'}, 'server_lr', (1.0, 1.4)),
    'fedavg-tuned': Column('FedAvg, tuned', {'method': 'fedavg'}, 'server_lr', (1.0, 1.4), tuned=True),
    'fedprox': Column('FedProx', {'method': 'fedprox'}, 'l2', (0.001, 0.01)),
    'fedprox-tuned': Column('FedProx, tuned', {'method': 'fedprox'}, 'l2', (0.001, 0.01), tuned=True),
    'local': Column('Local', {'method': 'local'}, RATE, (1.0, 1.5)),
    'ditto': Column('Ditto', {'method': 'ditto'}, 'personal_l2', (0.1, 1.0)),
    'fedper': Column('FedPer', {'method': 'fedper'}, 'head_layers', (1, 2)),
    'fedrep': Column('FedRep', {'method': 'fedrep'}, 'base_epochs', (1, 4)),
    'pfedme': Column('pFedMe', {'method': 'pfedme'}, 'envelope_lr', (0.005, 0.02)),
    'pfedbayes': Column('pFedBayes', {'method': 'pfedbayes'}, 'zeta', (1.0, 10.0)),
    'barycentre-kl': Column('Barycentre, reverse KL', {'method': 'barycentre', 'divergence': 'reverse_kl'},
                            'kl_weight', (0.01, 1.0)),
    'barycentre-w2': Column('Barycentre, Wasserstein-2', {'method': 'barycentre', 'divergence': 'wasserstein'},
                            'kl_weight', (0.01, 1.0)),
    'fedivon': Column('FedIVON', {'method': 'fedivon'}, 'kl_weight', (0.01, 1.0)),
}
SEEDS = (0, 1, 2, 3, 4)
SWEEP_SEEDS = (100,)     # which no table uses
SWEEP_ROUNDS = 10
# What the sweeps have chosen, by case and column (scripts.sweep prints it so); the rest is default.
CHOSEN = {
    'femnist': {
        'virtual': {'client_lr': 0.2, 'kl_weight': 0.01},
        'pvi': {'client_lr': 0.1, 'damping': 0.16},
        'fedavg': {'client_lr': 0.2, 'server_lr': 1.4},
        'fedavg-tuned': {'client_lr': 0.2, 'server_lr': 1.4},
        'fedprox': {'client_lr': 0.2, 'l2': 0.001},
        'fedprox-tuned': {'client_lr': 0.2, 'l2': 0.001},
        'local': {'client_lr': 0.3},
        'ditto': {'client_lr': 0.2, 'personal_l2': 0.1},
        'fedper': {'client_lr': 0.2, 'head_layers': 1},
        'fedrep': {'client_lr': 0.2, 'base_epochs': 4},
        'pfedme': {'client_lr': 0.2, 'envelope_lr': 0.02},
        'pfedbayes': {'client_lr': 0.2, 'zeta': 1.0},
        'barycentre-kl': {'client_lr': 0.2, 'kl_weight': 0.01},
        'barycentre-w2': {'client_lr': 0.2, 'kl_weight': 0.01},
        'fedivon': {'client_lr': 0.2, 'kl_weight': 0.01}},
    'har': {
        'virtual': {'client_lr': 0.05, 'kl_weight': 0.01},
        'pvi': {'client_lr': 0.02, 'damping': 0.16},
        'fedavg': {'client_lr': 0.05, 'server_lr': 1.4},
        'fedavg-tuned': {'client_lr': 0.05, 'server_lr': 1.4},
        'fedprox': {'client_lr': 0.05, 'l2': 0.001},
        'fedprox-tuned': {'client_lr': 0.05, 'l2': 0.01},
        'local': {'client_lr': 0.075},
        'ditto': {'client_lr': 0.05, 'personal_l2': 1.0},
        'fedper': {'client_lr': 0.05, 'head_layers': 1},
        'fedrep': {'client_lr': 0.05, 'base_epochs': 4},
        'pfedme': {'client_lr': 0.02, 'envelope_lr': 0.02},
        'pfedbayes': {'client_lr': 0.05, 'zeta': 1.0},
        'barycentre-kl': {'client_lr': 0.05, 'kl_weight': 0.01},
        'barycentre-w2': {'client_lr': 0.05, 'kl_weight': 0.01},
        'fedivon': {'client_lr': 0.05, 'kl_weight': 0.01}},
    'mnist-dirichlet-0.1': {
        'virtual': {'client_lr': 0.2, 'kl_weight': 0.01},
        'pvi': {'client_lr': 0.1, 'damping': 0.16},
        'fedavg': {'client_lr': 0.2, 'server_lr': 1.0},
        'fedavg-tuned': {'client_lr': 0.2, 'server_lr': 1.0},
        'fedprox': {'client_lr': 0.2, 'l2': 0.001},
        'fedprox-tuned': {'client_lr': 0.2, 'l2': 0.001},
        'local': {'client_lr': 0.3},
        'ditto': {'client_lr': 0.2, 'personal_l2': 0.1},
        'fedper': {'client_lr': 0.2, 'head_layers': 1},
        'fedrep': {'client_lr': 0.2, 'base_epochs': 4},
        'pfedme': {'client_lr': 0.2, 'envelope_lr': 0.02},
        'pfedbayes': {'client_lr': 0.2, 'zeta': 10.0},
        'barycentre-kl': {'client_lr': 0.2, 'kl_weight': 0.01},
        'barycentre-w2': {'client_lr': 0.2, 'kl_weight': 0.01},
        'fedivon': {'client_lr': 0.2, 'kl_weight': 0.01}},
    'mnist-dirichlet-5': {
        'virtual': {'client_lr': 0.2, 'kl_weight': 0.01},
        'pvi': {'client_lr': 0.1, 'damping': 0.16},
        'fedavg': {'client_lr': 0.2, 'server_lr': 1.0},
        'fedavg-tuned': {'client_lr': 0.2, 'server_lr': 1.0},
        'fedprox': {'client_lr': 0.2, 'l2': 0.001},
        'fedprox-tuned': {'client_lr': 0.2, 'l2': 0.001},
        'local': {'client_lr': 0.3},
        'ditto': {'client_lr': 0.2, 'personal_l2': 0.1},
        'fedper': {'client_lr': 0.2, 'head_layers': 1},
        'fedrep': {'client_lr': 0.2, 'base_epochs': 4},
        'pfedme': {'client_lr': 0.1, 'envelope_lr': 0.02},
        'pfedbayes': {'client_lr': 0.2, 'zeta': 1.0},
        'barycentre-kl': {'client_lr': 0.2, 'kl_weight': 0.01},
        'barycentre-w2': {'client_lr': 0.2, 'kl_weight': 0.01},
        'fedivon': {'client_lr': 0.2, 'kl_weight': 0.01}},
}


def rival(case, column):
    """A column's experiment on a case."""
    return experiment(f'{STUDY}/{case}/{column}', _given(case, column),
                      {'rounds': CASES[case].rounds, 'unseen_fraction': CASES[case].unseen},
                      CHOSEN.get(case, {}).get(column, {}))


def sweep(case, column):
    """The four points of a column on a case, as experiments.sweep has them.

    All clients take part: what nobody has seen is measured at the end alone, which would cost more than it tells here.
    """
    name, rates, (_, _, axis, values, _) = f'sweeps/{STUDY}-{case}/{column}', CASES[case].rates, COLUMNS[column]
    axes = {RATE: rates, axis: values}
    if axis == RATE:
        axes = {RATE: sorted(round(rate * factor, 9) for rate in rates for factor in values)}
    return {name: grid(name, _given(case, column) | {'rounds': SWEEP_ROUNDS, 'validation_fraction': 0.2}, axes)}


def _given(case, column):
    of_case, of_column = CASES[case], COLUMNS[column]
    tuned = {'fine_tune': of_case.epochs} if of_column.tuned else {}
    return {'model': 'mlp', 'epochs': of_case.epochs, **of_case.given, **of_column.given, **tuned}
