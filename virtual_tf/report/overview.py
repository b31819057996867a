"""What a person asks first about a run, as data and as text."""
import numpy as np

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.methods import registry
from virtual_tf.runs.summary import MT, S, summarise

WORST = 5     # clients that are named
_NAMES = {S: 'S', MT: 'MT'}


def changed(settings):
    """{setting: value} of what differs from the defaults of its method, data and preset; method and data always."""
    chosen = {name: getattr(settings, name) for name in ('method', 'dataset')}
    if settings.preset != 'ours':
        chosen['preset'] = settings.preset
    usual = registry.make_settings(chosen)
    return chosen | {name: value for name, value in settings.to_dict().items() if value != getattr(usual, name)}


def command(settings):
    """The command that repeats a run."""
    return 'virtual-tf run ' + ' '.join(_flag(name, value) for name, value in changed(settings).items())


def _flag(name, value):
    if isinstance(value, bool):
        return f'--{name}' if value else f'--no{name}'
    return f"--{name}='{value}'" if ' ' in str(value) else f'--{name}={value}'


def scores(run):
    """[(name, best, its round, last)] of S and MT in percent; () before the first round."""
    history = run.rows()
    if not history:
        return ()
    summary = summarise(history)
    return tuple((name, 100 * summary['max'][key], int(summary['max_round'][key]), 100 * summary['final'][key])
                 for key, name in _NAMES.items())


def worst_clients(run, count=WORST):
    """[(name, accuracy of its own model, test targets)] of clients that have trained, the worst first."""
    found = run.client_accuracies()
    return sorted(((name, *values) for name, values in found.items()), key=lambda row: row[1])[:count]


def costs(run):
    """{what: number} of all rounds together."""
    history = run.history
    return {'rounds': len(history.get('round', ()))} | {
        key: float(np.nansum(history[key])) for key in ('seconds', 'bytes_up', 'bytes_down') if key in history}


def text(run):
    """The overview of one run."""
    spent, lines = costs(run), [str(run.path)]
    state = 'finished' if run.finished else f'{spent["rounds"]} of {run.settings.rounds} rounds'
    lines.append(f'  state       {state}')
    lines.append('  settings    ' + ', '.join(f'{name} {value}' for name, value in changed(run.settings).items()))
    said = run.config['data']
    lines.append(f'  data        {said.get("name", run.settings.dataset)}: {said["clients"]} clients'
                 + (f' ({said["caveat"]})' if said.get('caveat') else ''))
    lines += [f'  {name:<12}best {best:.2f} % in round {number}, last {last:.2f} %'
              for name, best, number, last in scores(run)]
    try:
        lines += [f'  {"worst" if not i else "":<12}{name}: {100 * accuracy:.1f} % of {targets} targets'
                  for i, (name, accuracy, targets) in enumerate(worst_clients(run))]
    except VirtualTfError as error:
        lines.append(f'  worst       not known: {error}')
    lines.append(f'  time        {spent.get("seconds", 0.0):.0f} s in {spent["rounds"]} rounds')
    if 'bytes_up' in spent:
        lines.append(f'  bytes       {spent["bytes_up"]:,.0f} up, {spent["bytes_down"]:,.0f} down')
    return '\n'.join([*lines, f'  again       {command(run.settings)}'])
