"""The paper's experiments as data: what is run for each table and figure, and with which values.

A case is a data set with a network, a column a method; their meeting is an Experiment, a line of a table without its
seed. The values of CHOSEN are those that the sweeps in results/sweeps have picked; a test holds them to it.
"""
import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from virtual_tf.core.errors import unknown
from virtual_tf.methods import registry
from virtual_tf.studies import convergence, rivals
from virtual_tf.studies.experiment import experiment, grid


@dataclasses.dataclass(frozen=True)
class Case:
    """A data set with a network, and how long it is trained here."""
    dataset: str
    model: str
    rounds: int
    paper: str              # row of the paper's Table 2
    rates: tuple            # client learning rates of the sweep
    slow: bool = False      # its sweep is a small one
    note: str = ''          # what is not the paper's, beside the caveat that the data has

    def given(self):
        return {'dataset': self.dataset, 'model': self.model, 'rounds': self.rounds}


class UncertaintyCase(NamedTuple):
    """A data set on which it is measured what a posterior knows."""
    given: dict
    swept: str              # the case whose swept values it has
    against: tuple          # foreign data (runs/out_of_distribution.py)


class Column(NamedTuple):
    """How a method is run for a table."""
    label: str
    given: dict
    paper: str = ''         # column of the paper's Table 2, whose swept values it has too


class Sweeps(NamedTuple):
    """Grids whose best points are chosen, one a column."""
    make: Callable          # column → {name: {((setting, value), …): Experiment}}
    columns: tuple
    seeds: tuple = (0,)     # the usual ones
    stages: str = ''        # of successive halving, as scripts.sweep --halving has them


*BASELINES, OURS = COMPARED = ('fedavg', 'fedprox', 'virtual')
# The server moves by γ·η_s alone, and γ says how far from it the deployed client models stay: so the sweeps vary γ at
# this product, and the results that are kept have it.
STEP, DAMPING = 0.16, 0.8
CASES = {
    'mnist': Case('mnist', 'mlp', 60, 'mnist', (0.2, 0.4, 0.8)),
    'pmnist': Case('pmnist', 'mlp', 60, 'pmnist', (0.05, 0.1, 0.2)),
    # Not 0.4, which an earlier sweep liked best for FedProx: there one seed of three diverged in 60 rounds.
    'writers': Case('writers', 'mlp', 60, 'femnist', (0.1, 0.2, 0.3), note='in the place of FEMNIST'),
    'har': Case('har', 'mlp', 30, 'har', (0.01, 0.02, 0.05, 0.1), note='6 activities, not 12'),
    'vsn': Case('vsn', 'mlp', 23, 'vsn', (0.01, 0.02, 0.05, 0.1)),
    'writers-conv': Case('writers', 'conv', 60, 'femnist-conv', (0.1, 0.2), slow=True, note='in the place of FEMNIST'),
    'shakespeare': Case('shakespeare', 'lstm', 40, 'shakespeare', (1.0, 2.0), slow=True),
}
MLPS = [name for name, case in CASES.items() if case.model == 'mlp']
# The results that are kept were made without what has become the default since.
_UNGUARDED = {'max_gradient_norm': 0.0, 'backtracking': False}
# The paper's text has private weights, its authors' code has none.
_SHARED = _UNGUARDED | {'method': OURS, 'private': 'none', 'mt_model': 'damped', 'precision_update': 'sgd',
                        'kl_weight': 1e-5, 'private_prior_scale': 0.0, 'gate_prior': 0.0, 'gate_init': 0.3,
                        'init_scale': 0.02, 'prior_scale': 1.0}
# VIRTUAL's first defaults with natural precisions, with which two of the studies that are kept were played.
_FIRST_NATURAL = {'kl_weight': 3e-3, 'precision_step': 0.01, 'init_scale': 0.02, 'prior_scale': 1.0, 'server_lr': 0.16}
COLUMNS = {
    **{name: Column(registry.find(name).label, _UNGUARDED | {'method': name}, name) for name in BASELINES},
    OURS: Column(registry.find(OURS).label, _SHARED, OURS),
    'virtual-residual': Column('VIRTUAL, private weights', _SHARED | {'private': 'residual'}, OURS),
    'authors': Column('VIRTUAL, authors\' choices', {'method': OURS, 'preset': 'authors'}),
}
# And those that Table 3 alone has.
ALL_COLUMNS = COLUMNS | {
    'fedavg_init': Column('VIRTUAL + FedAvg init', _SHARED | {'client_start': 'fedavg_init'}, OURS),
    'error_feedback': Column('VIRTUAL, error feedback', _SHARED | {'error_feedback': True}, OURS),
}

# The paper's grids: five values of each, log-spaced but for η_s. Its text names neither ends nor steps for the rates:
# here they are half powers of ten around a case's usual one. VIRTUAL has γ = 1 − η_s: η_s = 1 would freeze the clients.
PAPER_GRID = {'client_lr': (0.1, 0.316, 1.0, 3.16, 10.0), 'server_lr': (0.2, 0.4, 0.6, 0.8, 1.0)}
PAPER_REGULARISERS = {'fedavg': {}, 'fedprox': {'l2': (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)},
                      'virtual': {'kl_weight': (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)}}
# Ours, in runs of 15 rounds: a grid of three or four rates by four values of what else a method's sweep varies (its
# record in the registry says what), and through its best point a line of four more server_lr, multiples of the usual
# one. So all methods have equally many points. Of a slow case two rates by two values, and no line. β has a study of
# its own.
SWEEP_ROUNDS, SLOW_SWEEP_ROUNDS, SWEEP_VALIDATION = 15, 8, 0.2

# What the sweeps have chosen, by case and column: the grid all but server_lr, the line that. The rest is default.
CHOSEN = {
    'mnist': {'fedavg': {'client_lr': 0.4, 'server_lr': 1.4},
              'fedprox': {'client_lr': 0.4, 'l2': 1e-5, 'server_lr': 1.0},
              'virtual': {'client_lr': 0.4, 'damping': 0.5, 'server_lr': 0.32}},
    'pmnist': {'fedavg': {'client_lr': 0.1, 'server_lr': 2.0},
               'fedprox': {'client_lr': 0.1, 'l2': 1e-4, 'server_lr': 2.0},
               'virtual': {'client_lr': 0.1, 'damping': 1.0, 'server_lr': 0.224}},
    'writers': {'fedavg': {'client_lr': 0.3, 'server_lr': 1.4},
                'fedprox': {'client_lr': 0.3, 'l2': 0.01, 'server_lr': 1.4},
                'virtual': {'client_lr': 0.3, 'damping': 1.0, 'server_lr': 0.16}},
    'har': {'fedavg': {'client_lr': 0.02, 'server_lr': 1.4},
            'fedprox': {'client_lr': 0.02, 'l2': 0.001, 'server_lr': 1.4},
            'virtual': {'client_lr': 0.05, 'damping': 0.75, 'server_lr': 0.213333333}},
    'vsn': {'fedavg': {'client_lr': 0.05, 'server_lr': 2.0},
            'fedprox': {'client_lr': 0.1, 'l2': 0.01, 'server_lr': 1.0},
            'virtual': {'client_lr': 0.05, 'damping': 1.0, 'server_lr': 0.16}},
    'writers-conv': {'fedavg': {'client_lr': 0.2, 'server_lr': 1.0},
                     'fedprox': {'client_lr': 0.2, 'l2': 0.001},
                     'virtual': {'client_lr': 0.1, 'init_scale': 0.02}},
    'shakespeare': {'fedavg': {'client_lr': 2.0, 'server_lr': 1.0},
                    'fedprox': {'client_lr': 2.0, 'l2': 1e-4},
                    'virtual': {'client_lr': 1.0, 'init_scale': 0.02}},
}
SPARSITIES = (0, 50, 75, 90)
TABLE_3_ROWS = (*((column, percent) for column in (OURS, 'fedavg_init') for percent in SPARSITIES),
                ('error_feedback', 75), ('error_feedback', 90), *((name, 0) for name in BASELINES))
E100_ROUNDS = {'writers': 60, 'writers-conv': 10}
# What a posterior knows: a fifth of the clients is never seen, Gaussian weights are also sampled.
UNCERTAINTY = {
    'femnist': UncertaintyCase({'dataset': 'femnist', 'standardize': 'none', 'rounds': 60}, 'femnist-published',
                               ('shuffled', 'mnist')),
    'har': UncertaintyCase({'dataset': 'har', 'rounds': 30}, 'har', ('shuffled',)),
    'mnist-dirichlet': UncertaintyCase({'dataset': 'mnist', 'split': 'dirichlet:0.1', 'rounds': 30}, 'mnist',
                                       ('shuffled', 'femnist')),
}
# What the precisions by natural gradient are worth: columns, lengths, and values that held-out data chose.
INFERENCE_COLUMNS = {OURS: 'VIRTUAL', **{f'{name}{tuned}': registry.find(name).label + tuned.replace('-', ', ')
                                         for tuned in ('', '-tuned') for name in BASELINES}}
INFERENCE_CASES = {'femnist-published': {'dataset': 'femnist', 'standardize': 'none', 'rounds': 150},
                   **{name: {'dataset': name, 'rounds': rounds}
                      for name, rounds in (('femnist', 150), ('writers', 150), ('har', 60), ('vsn', 60))}}
INFERENCE_TUNING = registry.find(OURS).settings['fine_tune'].default
INFERENCE_CHOSEN = {
    'femnist-published': {'fedavg': {'client_lr': 0.05, 'server_lr': 1.4},
                          'fedprox': {'client_lr': 0.05, 'server_lr': 1.4, 'l2': 1e-3},
                          # The present defaults are too much for inputs around 1: S and MT lose a point there.
                          'virtual': {'client_lr': 0.05, **_FIRST_NATURAL, 'private': 'after'}},
    'femnist': {'fedavg': {'client_lr': 0.2, 'server_lr': 1.4},
                'fedprox': {'client_lr': 0.2, 'server_lr': 1.4, 'l2': 1e-3}, 'virtual': {'client_lr': 0.2}},
    'writers': {'fedavg': {'client_lr': 0.2, 'server_lr': 1.4},
                'fedprox': {'client_lr': 0.2, 'server_lr': 1.4, 'l2': 1e-3}, 'virtual': {'client_lr': 0.2}},
    'har': {'fedavg': {'client_lr': 0.05}, 'fedprox': {'client_lr': 0.05, 'l2': 1e-3},
            'virtual': {'client_lr': 0.05}},
    'vsn': {'fedavg': {'client_lr': 0.02}, 'fedprox': {'client_lr': 0.02, 'l2': 1e-3}, 'virtual': {'client_lr': 0.05}},
}
# Pruned deltas under both updates of the precision, each at its own β, on femnist.
PRECISIONS = {'natural': {}, 'sgd': {'precision_update': 'sgd', 'kl_weight': 1e-5}}
PRUNING_PERCENTS, PRUNING_ROUNDS = (0, 75, 90), 60
KL_WEIGHTS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)


def chosen(case, column):
    """The swept values of an experiment: a variant of VIRTUAL has those of VIRTUAL, the authors' choices have none."""
    return CHOSEN.get(case, {}).get(ALL_COLUMNS[column].paper, {})


def _on(case, column, name, *givens):
    """A column's experiment on a case."""
    return _at_usual_step(experiment(
        name, CASES[case].given(), ALL_COLUMNS[column].given, chosen(case, column), *givens))


def table2(case, column):
    return _on(case, column, f'table2/{case}/{column}')


def table3(column, prune=0):
    """VIRTUAL with pruned deltas, also with FedAvg's initialisation or error feedback; and the baselines."""
    return _on('writers', column, f'table3/{column}-{prune}', {} if column in BASELINES else {'prune': prune})


def table4(case, column):
    """E = 100."""
    return _on(case, column, f'table4/{case}/{column}',
               {'epochs': 100, 'rounds': E100_ROUNDS.get(case, CASES[case].rounds)})


def inference(case, column):
    """VIRTUAL as it is by default against the baselines, as they are and fine-tuned for as many epochs."""
    method, _, tuned = column.partition('-')
    return experiment(f'inference/{case}/{column}', INFERENCE_CASES[case], {'method': method},
                      INFERENCE_CHOSEN.get(case, {}).get(method, {}), {'fine_tune': INFERENCE_TUNING} if tuned else {})


def pruning(precision, percent):
    """VIRTUAL without private weights, its deltas pruned by SNR."""
    return experiment(f'pruning/{precision}/{percent}', {
        'dataset': 'femnist', 'standardize': 'none', 'rounds': PRUNING_ROUNDS, 'method': OURS, 'prune': percent},
        INFERENCE_CHOSEN['femnist-published'][OURS], {'private': 'none'}, PRECISIONS[precision])


def kl_study(kl_weight):
    return _on('writers', OURS, f'kl/{kl_weight:g}', {'kl_weight': kl_weight})


def uncertainty(case, column):
    """A column's experiment on a case of UNCERTAINTY."""
    swept = INFERENCE_CHOSEN.get(UNCERTAINTY[case].swept, {}).get(column, {})
    return experiment(f'uncertainty/{case}/{column}', {'model': 'mlp', 'unseen_fraction': 0.2, 'eval_samples': 10},
                      UNCERTAINTY[case].given, {'method': column}, swept,
                      _FIRST_NATURAL | {'private': 'after'} if column == OURS else {})


def sweep(case, column):
    """One method's grid, and the line through its best point: {part: {((setting, value), …): Experiment}}

    The line goes through what CHOSEN has; grid points on it belong to both. A case that is not there has no line yet, a
    slow one none at all.
    """
    name, slow, of_method = f'sweeps/{case}/{column}', CASES[case].slow, registry.find(column).sweep
    base = CASES[case].given() | COLUMNS[column].given | {
        'rounds': SLOW_SWEEP_ROUNDS if slow else SWEEP_ROUNDS, 'validation_fraction': SWEEP_VALIDATION}
    axis, values = ((of_method.small_axis, of_method.small_values) if slow else (of_method.axis, of_method.values))
    points = {point: _at_usual_step(each) for point, each in grid(
        name, base, {'client_lr': CASES[case].rates, axis: values}).items()}
    fixed = {key: value for key, value in chosen(case, column).items() if key != 'server_lr'}
    if slow or not fixed:
        return {name: points}
    usual = _at_usual_step(experiment('', base, fixed)).settings().server_lr
    seen = {(*fixed.items(), ('server_lr', each.settings().server_lr)): each
            for point, each in points.items() if fixed.items() <= dict(point).items()}
    more = grid(name, base, {**{key: (value,) for key, value in fixed.items()}, 'server_lr': [
        round(usual * multiple, 9) for multiple in of_method.server_lr]})
    return {name: points, f'{name}/server_lr': seen | more}


def paper_grid(case, column):
    """One method's grid as the paper has it: rate by β or l2 by η_s, whole runs; {name: points} as `sweep`."""
    name = f'paper-grid/{case}/{column}'
    base = CASES[case].given() | (
        {'method': OURS, 'preset': 'paper'} if column == OURS else COLUMNS[column].given)
    usual = sorted(CASES[case].rates)[len(CASES[case].rates) // 2]
    steps = [step for step in PAPER_GRID['server_lr'] if column != OURS or step < 1.0]
    return {name: grid(name, base, {'client_lr': [float(f'{usual * factor:.3g}') for factor in PAPER_GRID['client_lr']],
                                    **PAPER_REGULARISERS[column], 'server_lr': steps})}


def _at_usual_step(each):
    """VIRTUAL at the usual γ·η_s, where neither a sweep nor a preset says otherwise."""
    given = dict(each.given)
    if given['method'] != OURS or 'server_lr' in given or 'preset' in given:
        return each
    return experiment(each.name, given, {'server_lr': round(STEP / given.get('damping', DAMPING), 9)})


# Groups of experiments that a command can name, with their usual seeds.
STUDIES = {
    **{f'table2/{case}': ([table2(case, column) for column in COMPARED], (0, 1, 2)) for case in MLPS},
    **{f'table2/{case}-private': ([table2(case, 'virtual-residual')], (0, 1, 2)) for case in MLPS},
    **{f'table2/{case}-authors': ([table2(case, 'authors')], (0,)) for case in MLPS},
    'table2/writers-conv': ([table2('writers-conv', column) for column in COMPARED], (0,)),
    'table2/shakespeare': ([table2('shakespeare', column) for column in COMPARED], (0,)),
    'table3': ([table3(*row) for row in TABLE_3_ROWS], (0, 1, 2)),
    'table4/writers': ([table4('writers', column) for column in COMPARED], (0, 1, 2)),
    'table4/writers-conv': ([table4('writers-conv', column) for column in COMPARED], (0,)),
    'uncertainty': ([uncertainty(case, column) for case in UNCERTAINTY for column in COMPARED], (0, 1, 2, 3, 4)),
    **{f'inference/{case}': ([inference(case, column) for column in INFERENCE_COLUMNS], (0, 1, 2, 3, 4))
       for case in INFERENCE_CASES},
    'pruning': ([pruning(precision, percent) for precision in PRECISIONS for percent in PRUNING_PERCENTS], (0, 1, 2)),
    'kl': ([kl_study(value) for value in KL_WEIGHTS], (0, 1, 2)),
    **{part: ([convergence.converged(case, column) for column in columns], seeds) for case in convergence.CASES
       for part, (columns, seeds) in convergence.parts(case).items()},
    **{f'{rivals.STUDY}/{case}': ([rivals.rival(case, column) for column in rivals.COLUMNS], rivals.SEEDS)
       for case in rivals.CASES},
}


GRIDS = {f'{kind}/{case}': Sweeps(partial(make, case), COMPARED)
         for kind, make in (('sweeps', sweep), ('paper-grid', paper_grid)) for case in CASES}
GRIDS |= {f'sweeps/{rivals.STUDY}-{case}': Sweeps(partial(rivals.sweep, case), tuple(rivals.COLUMNS),
                                                 rivals.SWEEP_SEEDS) for case in rivals.CASES}
GRIDS |= {f'sweeps/{convergence.STUDY}-{case}': Sweeps(
    partial(convergence.sweep, case), convergence.SWEEP_COLUMNS, convergence.SWEEP_SEEDS, convergence.STAGES)
    for case in convergence.CASES}


def study(name):
    """(experiments, seeds) of a study, or of the part of one that `name` is the path of."""
    if name in STUDIES:
        return STUDIES[name]
    found = [(each, seeds) for experiments, seeds in STUDIES.values() for each in experiments if each.name == name]
    if not found:
        raise unknown('study', name, [*STUDIES, *GRIDS])
    return [found[0][0]], found[0][1]
