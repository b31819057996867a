"""Table 3: accuracy and bytes at several sparsities, both variants and the baselines."""
from typing import NamedTuple

import numpy as np

from virtual_tf.core import strict_json
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.report import text_tables
from virtual_tf.report.paper_tables import finished
from virtual_tf.runs import snr
from virtual_tf.runs.folder import RunFolder
from virtual_tf.runs.summary import MT, S
from virtual_tf.studies import experiments, paper

_CASE = experiments.CASES['writers']


class Row(NamedTuple):
    """A line of the table."""
    kind: str         # of experiments.ALL_COLUMNS
    prune: int = 0

    @property
    def label(self):
        return experiments.ALL_COLUMNS[self.kind].label

    def folder(self, seed):
        return experiments.table3(*self).folder(seed)

    def published(self):
        """S and MT of the paper, on FEMNIST; None where it has none."""
        if self.kind in experiments.BASELINES:
            return paper.TABLE_2[_CASE.paper][self.kind]
        return paper.TABLE_3.get(self.kind, {}).get(self.prune)


_FEDAVG, _FEDPROX = BASELINES = tuple(map(Row, experiments.BASELINES))


def read(path):
    """What the table needs of one run: accuracies in percent, sizes of a delta, and bytes and accuracies by round."""
    folder = RunFolder(path)
    summary, config, history = folder.summary(), folder.config(), folder.history()
    answers = sum(config['settings']['clients_per_round'] - row['dropped_clients'] for row in history)
    return {**{f'{protocol} {name}': 100 * summary[protocol][key] for protocol in ('max', 'last_5')
               for name, key in (('S', S), ('MT', MT))},
            'parameters': sum(row['parameters_up'] for row in history) / max(answers, 1),
            'bytes': sum(row['bytes_up'] for row in history) / max(answers, 1),
            'git_commit': config['git_commit'], 'history': history}


def megabytes_until(history, key, target):
    """(MB up, MB up and down) of the rounds up to the first at which the metric has reached the target; or None."""
    up = total = 0
    for row in history:
        up, total = up + row['bytes_up'], total + row['bytes_up'] + row['bytes_down']
        if row[key] >= target:
            return up / 1e6, total / 1e6
    return None


def results(rows, seeds, root):
    """{row: {number: [a value for each seed]}}; megabytes are None for a seed that never reached FedAvg."""
    runs = {(row, seed): read(root / row.folder(seed)) for row in rows for seed in seeds}
    table = {}
    for row in rows:
        mine = [runs[row, seed] for seed in seeds]
        table[row] = {key: [one[key] for one in mine] for key in mine[0] if key != 'history'}
        for name, key in (('S', S), ('MT', MT)):
            # FedAvg's final accuracy is the mean of its last five rounds: one round alone would be chance.
            reached = [megabytes_until(one['history'], key, runs[_FEDAVG, seed][f'last_5 {name}'] / 100)
                       for one, seed in zip(mine, seeds)]
            for i, part in enumerate(('up', 'total')):
                table[row][f'MB {part} to {name}'] = [one and one[i] for one in reached]
    return table


def accuracies(table):
    """Header and rows of what the paper's table has."""
    header = ('method', 'pruned', 'numbers in a delta', 'paper', 'kB of a delta', 'S max', 'MT max', 'S last 5',
              'MT last 5', 'paper S / MT', 'max − paper')
    rows = []
    for row, numbers in table.items():
        size = paper.TABLE_3_SIZE.get(row.prune) if row.kind in paper.TABLE_3 else None
        published = row.published()
        rows.append((row.label, f'{row.prune} %', f'{np.mean(numbers["parameters"]):,.0f}',
                     f'{size:,}' if size else '–', f'{np.mean(numbers["bytes"]) / 1e3:.1f}',
                     *(text_tables.cell(numbers[key]) for key in ('max S', 'max MT', 'last_5 S', 'last_5 MT')),
                     f'{published[0]} / {published[1]}' if published else '–',
                     ' / '.join(f'{np.mean(numbers[f"max {name}"]) - theirs:+.2f}' for name, theirs in zip(
                         ('S', 'MT'), published)) if published else '–'))
    return header, rows


def megabytes(table):
    """Header and rows of the bytes until FedAvg's final accuracy."""
    header = ('method', 'pruned', 'up, to S', 'up and down, to S', 'up, to MT', 'up and down, to MT')
    keys = [f'MB {part} to {name}' for name in ('S', 'MT') for part in ('up', 'total')]
    return header, [(row.label, f'{row.prune} %', *(text_tables.cell(numbers[key], 1, 'never') for key in keys))
                    for row, numbers in table.items()]


def markdown(table, seeds, title):
    """The whole table."""
    return (f'# Table 3 on {title}\n\nAccuracies in percent, mean ± 95 % interval over {len(seeds)} seeds '
            f'({", ".join(map(str, seeds))}). `max` is the best round on test data, as in the paper; `last 5` the mean '
            'of the last five rounds. Paper: FEMNIST.\n\n' + text_tables.markdown(*accuracies(table))
            + '\nMegabytes of all clients until FedAvg\'s final accuracy (its last five rounds) is reached:\n\n'
            + text_tables.markdown(*megabytes(table)))


def claims(table):
    """Sentences that test what the paper claims, each with its numbers; only of rows that are there."""
    def mean(row, key):
        return float(np.mean(table[row][key]))

    full, pruned, collapsed = (Row(experiments.OURS, percent) for percent in (0, 75, 90))
    variant = Row('fedavg_init')
    lines = []
    if {full, pruned} <= table.keys():
        for key in ('max MT', 'last_5 MT'):
            loss = mean(full, key) - mean(pruned, key)
            lines.append(f'- 75 % pruned costs VIRTUAL {loss:.2f} points of {key} (at most 1.5: '
                         f'{verdict(loss <= 1.5)}).')
    if pruned in table:
        above = {key: mean(pruned, key) - mean(_FEDPROX, key) for key in ('max S', 'max MT', 'last_5 S', 'last_5 MT')}
        lines.append('- VIRTUAL at 75 % is still above FedProx: ' + ', '.join(
            f'{key} {value:+.2f} ({verdict(value > 0)})' for key, value in above.items()) + '.')
        share = mean(pruned, 'bytes') / mean(_FEDPROX, 'bytes')
        lines.append(f'- A delta then has {share:.2f} of the bytes of FedProx\'s (the paper: half; '
                     f'{verdict(share <= 0.5)}).')
    for first, second, text in ((full, variant, 'the variant with FedAvg init is worse than VIRTUAL, at 0 %'),
                                (full, collapsed, 'VIRTUAL collapses at 90 %')):
        if {first, second} <= table.keys():
            lost = {key: mean(first, key) - mean(second, key) for key in ('max S', 'max MT')}
            lines.append(f'- The paper: {text}. Here it loses {lost["max S"]:.2f} points of max S and '
                         f'{lost["max MT"]:.2f} of max MT.')
    return '\n'.join(lines)


def verdict(holds):
    return 'yes' if holds else 'no'


def distributions(rows, seeds, root):
    """Sentences on the SNR of both variants without pruning; scripts.figures draws it."""
    found = {row.label: counts for row in (Row(experiments.OURS), Row('fedavg_init')) if row in rows
             and (counts := snr.load([root / row.folder(seed) for seed in seeds]))}
    return f'\n\n{snr.read_out(found)}' if found else ''


def write(folder, groups, source):
    """table3.md, .tex and .json of the rows all of whose runs are finished; returns the Markdown.

    groups: those of the study table3, as grids.of_studies makes them.
    """
    absent = [group.name for group in groups if not all(finished(job, source.root) for job in group.jobs())]
    rows = [Row(*row) for row in experiments.TABLE_3_ROWS if experiments.table3(*row).name not in absent]
    if not {*BASELINES} <= {*rows}:
        raise VirtualTfError(f'{source.root} lacks the baselines of table 3 or one of their seeds; --run makes them')
    seeds, settings = list(groups[0].points[()]), groups[0].jobs()[0].settings
    table = results(rows, seeds, source.root)
    lacking = f'\n\n- missing: {", ".join(absent)}: `{source.command(absent)}`' if absent else ''
    title = f'{settings.dataset}, {settings.rounds} rounds, {_CASE.note}' + (
        f', with {source.named_settings()}' if source.given else '')
    text = (markdown(table, seeds, title) + '\n\n' + claims(table) + distributions(rows, seeds, source.root) + lacking
            + '\n')
    text_tables.write_text(folder / 'table3.md', text)
    text_tables.write_text(folder / 'table3.tex', text_tables.latex(*accuracies(table)))
    settings_of = {row: dict(experiments.table3(*row).given) | source.given for row in rows}
    strict_json.write(folder / 'table3.json', {'seeds': seeds, 'rows': [
        row._asdict() | {'settings': settings_of[row], 'paper': row.published()} | numbers
        for row, numbers in table.items()]})
    return text
