"""One page about one or several runs: HTML that carries its pictures in itself and asks no network for anything."""
import base64
import html
import io

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.report import overview
from virtual_tf.runs import final_scores, pictures, score_pictures, snr

_STYLE = '''
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 62rem; margin: 2rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.6rem; margin-bottom: .25rem; } h2 { font-size: 1.2rem; margin: 2.25rem 0 .5rem; }
p { color: #444; margin: .25rem 0 .75rem; } img { max-width: 100%; height: auto; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .9rem .3rem 0; text-align: left; border-bottom: 1px solid #ddd; vertical-align: top; }
td.number, th.number { text-align: right; } tr.differs td { background: #fff6dd; }
pre { background: #f5f5f5; padding: .75rem 1rem; overflow-x: auto; font-size: .9rem; white-space: pre-wrap; }
'''


def page(runs):
    """The page as text."""
    labels = _labels(runs)
    named = dict(zip(labels, runs))
    sections = [_scores(named), *_pictures(named), _worst(named), _settings(named), _again(named)]
    data = {run.config['data'].get('name', run.settings.dataset) for run in runs}
    title = f'{", ".join(labels)} on {", ".join(sorted(data))}'
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
            f'content="width=device-width"><title>{_safe(title)}</title><style>{_STYLE}</style></head><body>\n'
            f'<h1>{_safe(title)}</h1>\n' + '\n'.join(filter(None, sections)) + '\n</body></html>\n')


def _labels(runs):
    """A name for each run: its variant, with the seed or the folder where that is not enough."""
    for label in (lambda run: run.settings.variant(),
                  lambda run: f'{run.settings.variant()}, seed {run.settings.seed}', lambda run: str(run.path)):
        labels = [label(run) for run in runs]
        if len({*labels}) == len(runs):
            return labels
    raise VirtualTfError('a run is given twice; give each once')


def _scores(named):
    rows = []
    for label, run in named.items():
        spent = overview.costs(run)
        cells = [cell for _, best, number, last in overview.scores(run) for cell in (
            f'{best:.2f} ({number})', f'{last:.2f}')] or ['–'] * 4
        rows.append([label, str(spent['rounds']), *cells, f'{spent.get("seconds", 0.0):,.0f}',
                     *(f'{spent.get(key, 0.0) / 1e6:,.1f}' for key in ('bytes_up', 'bytes_down'))])
    head = ['run', 'rounds', 'S best (round)', 'S last', 'MT best (round)', 'MT last', 'seconds', 'MB up', 'MB down']
    return _section('Scores', 'Accuracy in percent. S is the server\'s model on all test data, MT each client\'s own '
                    'model on its own.', _table(head, rows))


def _pictures(named):
    """Sections with a picture each, of what the runs have."""
    histories = {label: run.rows() for label, run in named.items()}
    if any(histories.values()):
        yield _picture('Curves', 'Accuracy and cross-entropy of S and MT, round by round.', lambda file: (
            pictures.learning_curves({name: rows for name, rows in histories.items() if rows}, file, '')))
    kept = {label: [found] for label, run in named.items() if (found := final_scores.load(run.path))}
    if kept:
        yield _picture('Reliability', 'Accuracy against confidence at the end of the run: on the dotted line a model '
                       'is right as often as it is sure.', lambda file: score_pictures.reliability(kept, file, ''))
        yield _picture('Accuracy over clients', 'Each client\'s accuracy, the worst first.',
                       lambda file: score_pictures.clients(kept, file, ''))
    found = {label: snr.shares(counts) for label, run in named.items() if (counts := snr.load([run.path]))}
    if found:
        yield _picture('Signal-to-noise ratio', 'Share of the clients\' weights whose |μ|/σ lies below a value; what '
                       'is far to the left can be pruned.', lambda file: pictures.snr_cdfs(found, snr.GRID, file))


def _worst(named):
    rows = []
    for label, run in named.items():
        try:
            rows += [[label, name, f'{100 * accuracy:.1f}', str(targets)]
                     for name, accuracy, targets in overview.worst_clients(run)]
        except VirtualTfError as error:
            rows.append([label, f'not known: {error}', '', ''])
    return _section('Worst clients', 'Of those that have trained, by the accuracy of their own model.',
                    _table(['run', 'client', 'accuracy, %', 'test targets'], rows)) if rows else ''


def _settings(named):
    """What is no default in one of the runs; marked where they differ."""
    all_changed = [overview.changed(run.settings) for run in named.values()]
    names = dict.fromkeys(name for changed in all_changed for name in changed)
    rows = [[name, *(str(run.settings.get(name, '–')) for run in named.values())] for name in names]
    return _section('Settings', 'All that is no default; marked where the runs differ.',
                    _table(['setting', *named], rows, mark=lambda row: len({*row[1:]}) > 1, numbers=False))


def _again(named):
    lines = [f'# {label}: commit {run.config.get("git_commit") or "unknown"}, '
             f'TensorFlow {run.config.get("versions", {}).get("tensorflow", "unknown")}\n'
             f'{overview.command(run.settings)}' for label, run in named.items()]
    return _section('Again', 'The commands that repeat these runs.', f'<pre>{_safe(chr(10).join(lines))}</pre>')


def _section(title, explanation, body):
    return f'<h2>{_safe(title)}</h2>\n<p>{_safe(explanation)}</p>\n{body}'


def _picture(title, explanation, draw):
    file = io.BytesIO()
    draw(file)
    image = base64.b64encode(file.getvalue()).decode()
    return _section(title, explanation, f'<img alt="{_safe(title)}" src="data:image/png;base64,{image}">')


def _table(head, rows, mark=lambda row: False, numbers=True):
    right = [numbers and bool(rows) and rows[0][i][:1].isdigit() for i in range(len(head))]

    def cells(row, tag):
        return ''.join(f'<{tag}{" class=number" if of_number else ""}>{_safe(cell)}</{tag}>'
                       for cell, of_number in zip(row, right))

    body = ''.join(f'<tr{" class=differs" if mark(row) else ""}>{cells(row, "td")}</tr>\n' for row in rows)
    return f'<div class="wide"><table><tr>{cells(head, "th")}</tr>\n{body}</table></div>'


def _safe(text):
    return html.escape(str(text))
