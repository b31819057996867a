"""What one command has run, compared: results.json, and the table that is shown at the end."""
from virtual_tf.report import text_tables
from virtual_tf.runs.summary import MT, S
from virtual_tf.studies.grids import shared_settings

_SHORT = {'accuracy': 'acc %', 'cross_entropy': 'xent'}     # a metric in a heading
_MODELS = {'server': 'S', 'mt': 'MT'}


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
    """S and MT of each variant, mean ± 95 % interval over seeds: all metrics at the end, accuracies at best.

    rows: {variant: {seed: summary}} as `report` has them.
    """
    summaries = [summary for seeds in rows.values() for summary in seeds.values()]
    names = dict.fromkeys(key.split('/')[1] for key in summaries[0]['last_5'])
    parts = {_last(summaries): [('last_5', f'{model}/{name}') for name in names for model in _MODELS],
             'best round (paper)': [('max', S), ('max', MT)]}
    columns = [column for part in parts.values() for column in part]
    lines = [['method', *(_title(key) for _, key in columns)]] + [
        [variant, *(_cell(seeds, *column) for column in columns)] for variant, seeds in rows.items()]
    widths = [max(map(len, column)) + 2 for column in zip(*lines)]
    head, at = ' ' * widths[0], 1
    for title, part in parts.items():
        head += f'{title:^{sum(widths[at:at + len(part)])}}'
        at += len(part)
    return '\n'.join([head.rstrip(), *(
        f'{first:{widths[0]}}' + ''.join(f'{cell:>{width}}' for cell, width in zip(cells, widths[1:]))
        for first, *cells in lines)])


def drops(rows):
    """Sentences on clients whose training was not used, which no accuracy tells."""
    counts = {variant: sum(summary.get('dropped_clients', 0) for summary in seeds.values())
              for variant, seeds in rows.items()}
    return [f'{variant}: {count} times a client was dropped, as its training gave numbers that are not finite'
            for variant, count in counts.items() if count]


def _last(summaries):
    """What `last_5` is of: a run may have had fewer rounds."""
    count = max(min(5, summary['rounds']) for summary in summaries)
    return f'last {count} rounds' if count > 1 else 'last round'


def _title(key):
    model, name = key.split('/')
    return f'{_MODELS[model]} {_SHORT.get(name, name)}'


def _cell(seeds, protocol, key):
    factor, digits = (100, 2) if key.endswith('accuracy') else (1, 3)
    return text_tables.cell([factor * summary[protocol][key] for summary in seeds.values()], digits)
