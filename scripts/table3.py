"""The paper's Table 3: accuracy and bytes at several sparsities, both variants, error feedback and the baselines.

    python -m scripts.table3 --dataset=writers --seeds=0,1,2 --output_dir=runs/table3

Runs what is missing, a folder for each run, and writes table3.md, table3.json and snr_cdf.png beside them. All flags of
scripts.run that are not columns of the table apply to every run.
"""
import dataclasses
import json
import pathlib
from typing import NamedTuple

import numpy as np
from absl import flags

from scripts import entry, run
from virtual_tf import data, files, paper, plots, running, snr
from virtual_tf.settings import Settings, make_settings
from virtual_tf.types import VirtualTfError

SET_BY_TABLE = ('method', 'seed', 'prune', 'client_start', 'error_feedback')
LABELS = {'virtual': 'VIRTUAL', 'fedavg_init': 'VIRTUAL + FedAvg init', 'error_feedback': 'VIRTUAL, error feedback',
          'fedavg': 'FedAvg', 'fedprox': 'FedProx'}
S, MT = 'server/accuracy', 'mt/accuracy'


class Row(NamedTuple):
    """A line of the table."""
    kind: str         # a key of LABELS
    prune: int = 0

    def folder(self, seed):
        return f'{self.kind}-{self.prune}-seed{seed}'

    def changes(self):
        """Settings of this line's runs."""
        if self.kind in ('fedavg', 'fedprox'):
            return {'method': self.kind}
        return {'method': 'virtual', 'prune': self.prune, 'error_feedback': self.kind == 'error_feedback',
                'client_start': 'fedavg_init' if self.kind == 'fedavg_init' else 'posterior'}

    def published(self):
        """S and MT of the paper, on FEMNIST; None where it has none."""
        if self.kind in ('fedavg', 'fedprox'):
            return paper.TABLE_2_FEMNIST_MLP[self.kind]
        return paper.TABLE_3.get(self.kind, {}).get(self.prune)


def define_flags():
    run.define_flags()
    flags.adopt_module_key_flags(run)   # so that --help lists them
    flags.DEFINE_list('seeds', ['0', '1', '2'], 'seeds that the numbers are averaged over')
    flags.DEFINE_list('sparsities', ['0', '50', '75', '90'], 'percent pruned, for both variants')
    flags.DEFINE_list('feedback_sparsities', ['75', '90'], 'percent pruned in the rows with error feedback')
    flags.FLAGS.set_default('dataset', 'writers')
    flags.FLAGS.set_default('output_dir', 'runs/table3')


def rows_of_flags(values):
    sparsities, feedback = (integers(name, getattr(values, name)) for name in ('sparsities', 'feedback_sparsities'))
    kinds = (('virtual', sparsities), ('fedavg_init', sparsities), ('error_feedback', feedback), ('fedavg', [0]),
             ('fedprox', [0]))
    return [Row(kind, percent) for kind, percents in kinds for percent in percents]


def integers(name, texts):
    if not all(text.strip().isdecimal() for text in texts):
        raise VirtualTfError(f'{name} must be whole numbers with commas between, got {",".join(texts)}')
    return list(dict.fromkeys(map(int, texts)))


def settings_of(values, row, seed):
    """The Settings of one run of the table."""
    taken = [name for name in SET_BY_TABLE if flags.FLAGS[name].present]
    if taken:
        raise VirtualTfError(f'--{taken[0]} is set by the table itself; use --seeds, --sparsities or '
                             '--feedback_sparsities')
    if values.private and len(values.private) > 1:
        raise VirtualTfError(f'private must be one choice for a table, got {",".join(values.private)}')
    given = {field.name: getattr(values, field.name) for field in dataclasses.fields(Settings)
             if field.name not in (*SET_BY_TABLE, 'private') and getattr(values, field.name) is not None}
    if values.private and (row.changes()['method'] == 'virtual' or values.private_baselines):
        given['private'] = values.private[0]
    settings = make_settings(given | row.changes() | {'seed': seed})
    running.check_names(settings)
    return settings


def play(values, rows, seeds, root):
    """Plays the runs that have no summary.json, all with --noresume; one that has must be of the same settings."""
    plan = {(row, seed): settings_of(values, row, seed) for seed in seeds for row in rows}
    files.check_writable(root)
    datasets = {}
    for (row, seed), settings in plan.items():
        folder = root / row.folder(seed)
        if values.resume and (folder / 'summary.json').exists():
            check_same(settings, folder)
            continue
        if seed not in datasets:
            datasets = {seed: data.load(values.data_dir, settings)}
        print(f'{LABELS[row.kind]}, {row.prune} % pruned, seed {seed}: {folder}', flush=True)
        run.play(settings, datasets[seed], folder, values.resume)


def check_same(settings, folder):
    """Refuses a finished run that is not the one which the table asks for."""
    stored = json.loads((folder / 'config.json').read_text(encoding='utf-8'))['settings']
    differences = settings.differences(stored)
    if settings.rounds != stored.get('rounds'):
        differences['rounds'] = stored.get('rounds'), settings.rounds
    running.check_same(differences, folder)


def read(folder):
    """What the table needs of one run: accuracies in percent, sizes of a delta, and bytes and accuracies by round."""
    summary = json.loads((folder / 'summary.json').read_text(encoding='utf-8'))
    clients = json.loads((folder / 'config.json').read_text(encoding='utf-8'))['settings']['clients_per_round']
    history = [json.loads(line) for line in (folder / 'metrics.jsonl').read_text(encoding='utf-8').splitlines()]
    answers = sum(clients - row['dropped_clients'] for row in history)
    return {**{f'{protocol} {name}': 100 * summary[protocol][key] for protocol in ('max', 'last_5')
               for name, key in (('S', S), ('MT', MT))},
            'parameters': sum(row['parameters_up'] for row in history) / max(answers, 1),
            'bytes': sum(row['bytes_up'] for row in history) / max(answers, 1),
            'history': history}


def megabytes_until(history, key, target):
    """(MB up, MB up and down) of the rounds up to the first at which the metric has reached the target; or None."""
    up = total = 0
    for row in history:
        up, total = up + row['bytes_up'], total + row['bytes_up'] + row['bytes_down']
        if row[key] is not None and row[key] >= target:
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
            reached = [megabytes_until(one['history'], key, runs[Row('fedavg'), seed][f'last_5 {name}'] / 100)
                       for one, seed in zip(mine, seeds)]
            for i, part in enumerate(('up', 'total')):
                table[row][f'MB {part} to {name}'] = [one and one[i] for one in reached]
    return table


def cell(values, digits=2):
    """Mean ± standard deviation over seeds; of those that have a number, and how many."""
    numbers = [value for value in values if value is not None]
    if not numbers:
        return 'never'
    spread = f' ± {np.std(numbers, ddof=1):.{digits}f}' if len(numbers) > 1 else ''
    missing = f' ({len(numbers)} of {len(values)})' if len(numbers) < len(values) else ''
    return f'{np.mean(numbers):.{digits}f}{spread}{missing}'


def markdown(table, seeds, title):
    """The whole table: accuracies, sizes, and the megabytes until FedAvg's final accuracy."""
    lines = [f'# Table 3 on {title}', '',
             f'Accuracies in percent, mean ± standard deviation of {len(seeds)} seeds ({", ".join(map(str, seeds))}). '
             '`max` is the best round on test data, as in the paper; `last 5` the mean of the last five rounds. Paper: '
             'FEMNIST.', '',
             '| method | pruned | numbers in a delta (paper) | kB of a delta | S max | MT max | S last 5 | MT last 5 '
             '| paper S / MT |', '|---|---|---|---|---|---|---|---|---|']
    for row, numbers in table.items():
        size = paper.TABLE_3_SIZE.get(row.prune) if row.kind in paper.TABLE_3 else None
        published = row.published()
        lines.append(
            f'| {LABELS[row.kind]} | {row.prune} % | {np.mean(numbers["parameters"]):,.0f}'
            + (f' ({size:,})' if size else '') + f' | {np.mean(numbers["bytes"]) / 1e3:.1f} | '
            + ' | '.join(cell(numbers[key]) for key in ('max S', 'max MT', 'last_5 S', 'last_5 MT'))
            + f' | {f"{published[0]} / {published[1]}" if published else "–"} |')
    lines += ['', 'Megabytes of all clients until FedAvg\'s final accuracy (its last five rounds) is reached:', '',
              '| method | pruned | up, to S | up and down, to S | up, to MT | up and down, to MT |',
              '|---|---|---|---|---|---|']
    for row, numbers in table.items():
        lines.append(f'| {LABELS[row.kind]} | {row.prune} % | ' + ' | '.join(
            cell(numbers[f'MB {part} to {name}'], 1) for name in ('S', 'MT') for part in ('up', 'total')) + ' |')
    return '\n'.join(lines)


def claims(table):
    """Sentences that test what the paper claims, each with its numbers; only of rows that are there."""
    def mean(row, key):
        return float(np.mean(table[row][key]))

    full, pruned, collapsed = (Row('virtual', percent) for percent in (0, 75, 90))
    variant, prox = Row('fedavg_init', 0), Row('fedprox')
    lines = []
    if {full, pruned} <= table.keys():
        for key in ('max MT', 'last_5 MT'):
            loss = mean(full, key) - mean(pruned, key)
            lines.append(f'- 75 % pruned costs VIRTUAL {loss:.2f} points of {key} (at most 1.5: '
                         f'{verdict(loss <= 1.5)}).')
    if pruned in table:
        above = {key: mean(pruned, key) - mean(prox, key) for key in ('max S', 'max MT', 'last_5 S', 'last_5 MT')}
        lines.append('- VIRTUAL at 75 % is still above FedProx: ' + ', '.join(
            f'{key} {value:+.2f} ({verdict(value > 0)})' for key, value in above.items()) + '.')
        share = mean(pruned, 'bytes') / mean(prox, 'bytes')
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
    """Draws the SNR of both variants without pruning and returns the sentences on it."""
    found = {LABELS[row.kind]: counts for row in rows if row.prune == 0 and row.kind in ('virtual', 'fedavg_init')
             and (counts := snr.load([root / row.folder(seed) for seed in seeds]))}
    if not found:
        return ''
    plots.snr_cdfs({label: snr.shares(counts) for label, counts in found.items()}, snr.GRID, root / snr.PICTURE)
    return f'\n\n![CDF of log10 SNR of the clients\' weights]({snr.PICTURE})\n\n' + snr.read_out(found)


def main(_):
    values = flags.FLAGS
    run.load_plugins(values)
    rows, seeds = rows_of_flags(values), integers('seeds', values.seeds)
    if not seeds:
        raise VirtualTfError('seeds must name at least one seed, such as --seeds=0,1,2')
    root = pathlib.Path(values.output_dir).expanduser() / values.dataset.replace('/', '_')
    play(values, rows, seeds, root)
    table = results(rows, seeds, root)
    settings = settings_of(values, rows[0], seeds[0])
    text = (markdown(table, seeds, f'{settings.dataset}, {settings.rounds} rounds') + '\n\n' + claims(table)
            + distributions(rows, seeds, root) + '\n')
    (root / 'table3.md').write_text(text, encoding='utf-8')
    running.write_json(root / 'table3.json', {'seeds': seeds, 'rows': [
        row._asdict() | {'paper': row.published()} | numbers for row, numbers in table.items()]})
    print(f'\n{text}\nwritten: {root / "table3.md"}, table3.json, {snr.PICTURE}')


if __name__ == '__main__':
    define_flags()
    entry.run(main)
