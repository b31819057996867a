"""What one command has run, compared: results.json, and the tables that are shown at the end."""
import math

from virtual_tf.methods import registry
from virtual_tf.report import text_tables
from virtual_tf.runs.summary import MT, S
from virtual_tf.studies.grids import shared_settings

_SHORT = {'accuracy': 'acc %', 'cross_entropy': 'xent'}     # a metric in a heading
_MODELS = {'server': 'S', 'mt': 'MT', 'server_sampled': 'S sampled', 'mt_sampled': 'MT sampled'}
# What the second table shows: {metric: (title, factor, digits)}
_DETAILS = {'accuracy': ('acc %', 100, 2), 'balanced_accuracy': ('balanced %', 100, 2), 'auroc': ('AUROC', 1, 3),
            'cross_entropy': ('xent', 1, 3), 'ece': ('ECE %', 100, 2), 'ece_worst': ('worst ECE %', 100, 2),
            'brier': ('Brier', 1, 3), 'accuracy_worst': ('worst %', 100, 2), 'accuracy_p10': ('10th %', 100, 2),
            'accuracy_std': ('deviation %', 100, 2)}
# What it leaves to the logs.
_LOGGED = ('ece_clients', 'constant_accuracy')
_NO_BETTER = 1e-3     # of accuracy


def report(runs, summaries, dataset):
    """results.json: what was asked for, and the summaries of all seeds by variant."""
    shared, rows = shared_settings(runs), {}
    for settings, summary in zip(runs, summaries):
        rows.setdefault(settings.variant(), {})[str(settings.seed)] = summary
    return {'dataset': dataset.name, 'clients': len(dataset.clients), 'caveat': dataset.caveat, 'settings': shared,
            'settings_of': {settings.variant(): {name: value for name, value in sorted(settings.to_dict().items())
                                                 if name not in shared and name != 'seed'} for settings in runs},
            'summaries': rows}


def table(rows):
    """S and MT of each variant, mean ± 95 % interval over seeds: metrics at the end, accuracies at best.

    rows: {variant: {seed: summary}} as `report` has them. `details` shows what is not here.
    """
    names = [name for name in _names(rows) if name in _SHORT or name not in (*_DETAILS, *_LOGGED)]
    parts = {_last(rows): [('last_5', f'{model}/{name}') for name in names for model in ('server', 'mt')],
             'best round (paper)': [('max', S), ('max', MT)]}
    columns = [column for part in parts.values() for column in part]
    lines = [['method', *(_title(key) for _, key in columns)]] + [
        [variant, *(_cell(seeds, *column) for column in columns)] for variant, seeds in rows.items()]
    widths = [max(map(len, column)) + 2 for column in zip(*lines)]
    head, at = ' ' * widths[0], 1
    for title, part in parts.items():
        head += f'{title:^{sum(widths[at:at + len(part)])}}'
        at += len(part)
    return '\n'.join([head.rstrip(), *_aligned(lines)])


def details(rows):
    """A line for each variant and model: accuracy by class and client, calibration; and what others differ from it by.

    Differences are to the method whose record says that it is the reference, paired by seed. '' for summaries of
    before these metrics.
    """
    names = [name for name in _DETAILS if name in _names(rows)]
    if not {*names} - {*_SHORT}:
        return ''
    lines = [['', *(_DETAILS[name][0] for name in names)]]
    reference = next((variant for variant in rows if variant in registry.METHODS
                      and registry.find(variant).reference), None)
    for variant, seeds in rows.items():
        for model in _models(seeds):
            of_seeds = {seed: summary['last_5'] for seed, summary in seeds.items()}
            lines.append([f'{variant}, {_MODELS[model]}', *_values(of_seeds, model, names)])
    for variant, seeds in rows.items():
        if reference in (None, variant):
            continue
        for model in _models(seeds):
            other = model.removesuffix('_sampled')     # the reference may have one way to predict alone
            of_seeds = {seed: {f'{model}/{name}': _minus(summary, f'{model}/{name}', rows[reference][seed],
                                                         f'{other}/{name}') for name in names}
                        for seed, summary in seeds.items() if seed in rows[reference]}
            if of_seeds:
                lines.append([f'{variant} − {reference}, {_MODELS[model]}', *_values(of_seeds, model, names, '+')])
    return '\n'.join(_aligned(lines))


def newcomers(rows):
    """Accuracy and cross-entropy on clients that nobody has seen, by epochs of adaptation; '' if there are none."""
    lines = []
    for variant, seeds in rows.items():
        found = [summary['unseen'] for summary in seeds.values() if 'unseen' in summary]
        for way in (found[0]['0'] if found else ()):
            label = variant if way == 'means' else f'{variant}, {way}'
            lines.append([label, *(text_tables.cell(_scaled([one[epochs][way][name] for one in found], factor), digits)
                                   for name, factor, digits in (('accuracy', 100, 2), ('cross_entropy', 1, 3))
                                   for epochs in found[0])])
            epochs_shown = list(found[0])
    if not lines:
        return ''
    header = ['unseen, after epochs', *(f'{_SHORT[name]} {epochs}' for name in _SHORT for epochs in epochs_shown)]
    return '\n'.join(_aligned([header, *lines]))


def constants(rows):
    """Sentences on accuracies that a constant prediction has too."""
    sentences = []
    for variant, seeds in rows.items():
        for model in _models(seeds):
            key, constant = f'{model}/accuracy', f'{model}/constant_accuracy'
            pairs = [pair for summary in seeds.values()
                     if None not in (pair := (summary['last_5'].get(key), summary['last_5'].get(constant)))]
            accuracy, best = (sum(values) / len(values) for values in zip(*pairs)) if pairs else (math.nan, math.nan)
            if accuracy <= best + _NO_BETTER:     # NaN is not
                sentences.append(f'{variant}: {_MODELS[model]} is right in {100 * accuracy:.2f} %, no better than '
                                 f'always to say the commonest class ({100 * best:.2f} %); see its balanced accuracy')
    return sentences


def drops(rows):
    """Sentences on clients whose training was not used, which no accuracy tells."""
    counts = {variant: sum(summary.get('dropped_clients', 0) for summary in seeds.values())
              for variant, seeds in rows.items()}
    return [f'{variant}: {count} times a client was dropped, as its training gave numbers that are not finite'
            for variant, count in counts.items() if count]


def _names(rows):
    """Metrics that any summary shows, in their order."""
    return dict.fromkeys(key.split('/')[1] for seeds in rows.values() for summary in seeds.values()
                         for key in summary['last_5'])


def _models(seeds):
    shown = {key.split('/')[0] for summary in seeds.values() for key in summary['last_5']}
    return [model for model in _MODELS if model in shown]


def _minus(summary, key, other, other_key):
    """None where one of them has no number."""
    first, second = summary['last_5'].get(key), other['last_5'].get(other_key)
    return None if first is None or second is None else first - second


def _values(of_seeds, model, names, sign=''):
    cells = []
    for name in names:
        _, factor, digits = _DETAILS[name]
        values = _scaled([end.get(f'{model}/{name}') for end in of_seeds.values()], factor)
        cells.append(text_tables.cell(values, digits, sign=sign))
    return cells


def _scaled(values, factor):
    """None where there is no number: S, say, of a method whose server has no whole model."""
    return [None if value is None or math.isnan(value) else factor * value for value in values]


def _aligned(lines):
    """Lines of cells as text: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) + 2 for column in zip(*lines)]
    return [f'{first:{widths[0]}}' + ''.join(f'{cell:>{width}}' for cell, width in zip(cells, widths[1:]))
            for first, *cells in lines]


def _last(rows):
    """What `last_5` is of: a run may have had fewer rounds."""
    count = max(min(5, summary['rounds']) for seeds in rows.values() for summary in seeds.values())
    return f'last {count} rounds' if count > 1 else 'last round'


def _title(key):
    model, name = key.split('/')
    return f'{_MODELS[model]} {_SHORT.get(name, name)}'


def _cell(seeds, protocol, key):
    factor, digits = (100, 2) if key.endswith('accuracy') else (1, 3)
    return text_tables.cell(_scaled([summary[protocol][key] for summary in seeds.values()], factor), digits)
