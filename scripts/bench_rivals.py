"""What a step and a round of every method of the study `rivals` cost, on the MLP of scripts/bench.py.

A step is the plain one, with neither guards nor private weights nor fine-tuning, so that it can be held against the
method's definition; a round is one of the study, with all that the method does in its E = 20 epochs. Both are in
microseconds a client and step of the plan, so a method that takes two passes over the data has twice as many.
"""
from virtual_tf.methods import registry
from virtual_tf.studies import rivals

STEP = {'max_gradient_norm': 0.0, 'backtracking': False, 'private': 'none', 'fine_tune': 0, 'mt_model': 'trained',
        'precision_update': 'sgd'}
# So low that nobody runs away: a guard that takes steps back has more to do.
ROUND = {'epochs': 20, 'client_lr': 0.001}
TOLERANCE = 0.25


def definitions():
    """{column: (another column, how many of its steps one of this costs)} by what the methods are."""
    refinements = registry.find('pfedme').settings['personal_steps'].default
    plain = {'local': 1, 'fedprox': 1, 'ditto': 2, 'fedper': 1, 'pfedme': refinements}
    gaussian = {'pvi': 1, 'pfedbayes': 2, 'barycentre-kl': 1, 'barycentre-w2': 1, 'fedivon': 1}
    return {column: (other, times) for other, costs in ((rivals.PLAIN, plain), (rivals.OURS, gaussian))
            for column, times in costs.items()}


def rows_of(column):
    """{'step' or 'round': arguments for bench_rows}"""
    given, tuned = rivals.COLUMNS[column].given, rivals.COLUMNS[column].tuned
    plain = registry.applicable(given['method'], STEP)
    return {'step': given | plain, 'round': given | ROUND | ({'fine_tune': ROUND['epochs']} if tuned else {})}


def compare(measure, epochs, repeats):
    """Microseconds of all columns, and whether a step costs what its definition says; measure(row) → summary."""
    found = {'step': {}, 'round': {}}
    for column in rivals.COLUMNS:
        for kind, row in rows_of(column).items():
            found[kind][column] = measure(
                {'what': 'ours', 'model': 'mlp', 'epochs': epochs, 'repeats': repeats} | row)
    return {'microseconds': found, 'definitions': {
        column: held({name: row['median'] for name, row in found['step'].items()}, column, *defined)
        for column, defined in definitions().items()}, 'epochs': epochs, 'repeats': repeats}


def held(medians, column, other, times):
    """What a step is defined to cost, and whether it does."""
    measured = medians[column] / medians[other]
    return {'of': other, 'times': times, 'measured': measured, 'holds': abs(measured / times - 1.0) <= TOLERANCE}


def show(results):
    steps, rounds = (results['microseconds'][kind] for kind in ('step', 'round'))
    print(f'{"rivals, microseconds on one core":34}{"a step":>10}{"of a round":>12}{"a round / FedAvg":>18}')
    for column, row in steps.items():
        ratio = rounds[column]['median'] / rounds[rivals.PLAIN]['median']
        print(f'{rivals.COLUMNS[column].label:34}{row["median"]:10,.0f}{rounds[column]["median"]:12,.0f}{ratio:18.2f}')
    for column, found in results['definitions'].items():
        label, other = rivals.COLUMNS[column].label, rivals.COLUMNS[found['of']].label
        print(f'{label}: a step is {found["measured"]:.2f} of {other}\'s, by definition {found["times"]:g}: '
              + ('yes' if found['holds'] else f'no, off by more than {100 * TOLERANCE:.0f} %'))
    print(flush=True)
