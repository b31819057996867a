"""The paper's Table 2 at convergence: every method at its own best, for as many rounds as it takes, with many seeds.

What is swept is swept alike for every method: twelve points, by successive halving on held-out data, seeds that no
table uses, as many rounds for all; where the best lies at an edge, up to two points an axis are added. A baseline that
is mixed or tuned has the values of the plain one, as it trains and sends the same.
"""
from typing import NamedTuple

from virtual_tf.methods import registry
from virtual_tf.studies.experiment import experiment, grid

STUDY = 'convergence'
OURS = 'virtual'
RATE = 'client_lr'


class Case(NamedTuple):
    """A federation."""
    rounds: int
    rates: tuple       # client learning rates of the sweep
    seeds: int         # how many: the shorter a run, the more; `EARLIER` have two where a run takes long
    paper: str         # row of the paper's Table 2
    given: dict        # data, network, and whatever else is not the default there
    authors: int = 0   # rounds of the authors' runs, where they are fewer
    note: str = ''     # what is not the paper's, beside the caveat that the data has


class Column(NamedTuple):
    """A method as it is run; `of` names the column whose swept values it has, `axes` is what its own sweep varies."""
    label: str
    given: dict
    of: str = ''
    axes: dict | None = None     # {setting: values} beside the rate
    rate: float = 1.0   # what a case's rates are multiplied by


# From the shortest to the longest.
CASES = {
    'vsn': Case(60, (0.02, 0.05, 0.1), 10, 'vsn', {'dataset': 'vsn'}, authors=23),
    'har': Case(60, (0.02, 0.05, 0.1), 10, 'har', {'dataset': 'har'}, authors=30, note='6 activities, not 12'),
    'femnist': Case(250, (0.1, 0.2, 0.4), 5, 'femnist', {'dataset': 'femnist', 'standardize': 'center'},
                    note='each client\'s own mean taken from its pixels'),
    'femnist-published': Case(250, (0.02, 0.03, 0.05), 5, 'femnist', {'dataset': 'femnist', 'standardize': 'none'},
                              note='pixels as published'),
    'writers': Case(250, (0.1, 0.2, 0.4), 5, 'femnist', {'dataset': 'writers'}, note='in the place of FEMNIST'),
    'mnist': Case(250, (0.1, 0.2, 0.4), 5, 'mnist', {'dataset': 'mnist'}),
    'pmnist': Case(250, (0.05, 0.1, 0.2), 5, 'pmnist', {'dataset': 'pmnist'}),
    'femnist-conv': Case(250, (0.05, 0.1, 0.2), 3, 'femnist-conv', {
        'dataset': 'femnist', 'standardize': 'center', 'model': 'conv'}, note='each client\'s own mean taken from its '
        'pixels'),
    'shakespeare': Case(150, (0.5, 1.0, 2.0), 2, 'shakespeare', {'dataset': 'shakespeare'}),
}
_EARLIER = {'kl_weight': (1e-6, 1e-5, 1e-4, 1e-3)}
_SWEPT = {
    OURS: Column('VIRTUAL', {'method': OURS}, axes={'kl_weight': (0.01, 0.03), 'server_lr': (0.16, 0.2)}),
    'fedavg': Column('FedAvg', {'method': 'fedavg'}, axes={'server_lr': (0.7, 1.0, 1.4, 2.0)}),
    'fedprox': Column('FedProx', {'method': 'fedprox'}, axes={'l2': (0.001, 0.01), 'server_lr': (1.0, 1.4)}),
    'authors': Column('VIRTUAL, authors\' choices', {'method': OURS, 'preset': 'authors'}, axes=_EARLIER, rate=5e7),
    'paper': Column('VIRTUAL, paper\'s text', {'method': OURS, 'preset': 'paper'}, axes=_EARLIER),
}
BASELINES, EARLIER = ('fedavg', 'fedprox'), ('authors', 'paper')
# Ways to deploy a baseline; the share of a mixed one is VIRTUAL's γ, the epochs of a tuned one are VIRTUAL's.
WAYS = {'': {}, '-mixed': {'mt_share': registry.find(OURS).settings['damping'].default},
        '-tuned': {'fine_tune': registry.find(OURS).settings['fine_tune'].default}}
COLUMNS = {
    OURS: _SWEPT[OURS],
    **{f'{name}{way}': Column(f'{_SWEPT[name].label}{way.replace("-", ", ")}', _SWEPT[name].given | given, name)
       for way, given in WAYS.items() for name in BASELINES},
    **{name: _SWEPT[name] for name in EARLIER},
}
SWEEP_COLUMNS = tuple(_SWEPT)
SWEEP_SEEDS, SWEEP_ROUNDS, STAGES = (100, 101), 60, '8:4,20:2'
# What the sweeps have chosen, by case and column (scripts.sweep prints it so); the rest is default.
CHOSEN = {
    'vsn': {
        'virtual': {'client_lr': 0.1, 'kl_weight': 0.01, 'server_lr': 0.2},
        'fedavg': {'client_lr': 0.1, 'server_lr': 0.49},
        'fedprox': {'client_lr': 0.05, 'l2': 0.001, 'server_lr': 1.4},
        'authors': {'client_lr': 5000000.0, 'kl_weight': 1e-06},
        'paper': {'client_lr': 0.05, 'kl_weight': 1e-06}},
}


def converged(case, column):
    """A column's experiment on a case."""
    return experiment(f'{STUDY}/{case}/{column}', _given(case, column), {'rounds': CASES[case].rounds},
                      CHOSEN.get(case, {}).get(COLUMNS[column].of or column, {}))


def parts(case):
    """{name of a study: (columns, seeds)} of a case: what is compared, and VIRTUAL as it was."""
    of_case = CASES[case]
    few = of_case.seeds if of_case.rounds <= SWEEP_ROUNDS else min(2, of_case.seeds)
    return {f'{STUDY}/{case}': ([column for column in COLUMNS if column not in EARLIER], tuple(range(of_case.seeds))),
            f'{STUDY}/{case}-earlier': (EARLIER, tuple(range(few)))}


def sweep(case, column):
    """The twelve points of a column on a case, as experiments.sweep has them."""
    axes = {RATE: [float(f'{rate * _SWEPT[column].rate:.6g}') for rate in CASES[case].rates], **_SWEPT[column].axes}
    name = f'sweeps/{STUDY}-{case}/{column}'
    return {name: grid(name, _given(case, column) | {
        'rounds': min(CASES[case].rounds, SWEEP_ROUNDS), 'validation_fraction': 0.2}, axes)}


def _given(case, column):
    return CASES[case].given | COLUMNS[column].given
