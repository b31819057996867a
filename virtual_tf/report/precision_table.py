"""Deltas pruned by SNR under both updates of the precision: whether an SNR says which weights matter."""
from virtual_tf.core import strict_json
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.report import paper_tables, text_tables
from virtual_tf.runs import snr
from virtual_tf.runs.summary import MT, S
from virtual_tf.studies import grids
from virtual_tf.studies.experiments import PRUNING_ROUNDS

STUDY = 'pruning'
HEADER = ('precision by', 'pruned', 'S max', 'MT max', 'S last 5', 'MT last 5', 'S cross-entropy', 'SNR below 1, %',
          'kB a delta', 'seeds')


def jobs_of(given, seeds=None):
    """{(precision update, percent): {seed: Job}} with these settings in place of the study's."""
    groups = grids.of_studies([STUDY], given, seeds)
    return {tuple(group.name.split('/')[1:]): group.points[()] for group in groups}


def record_of(job, root):
    """What is kept of a finished run: beside its accuracies, what it sent and the SNR of its clients' weights."""
    folder, history = job.folder(root), job.folder(root).history()
    return paper_tables.record_of(job, root) | {
        'below_one': snr.percent_below_one(snr.load([folder.path])),
        'kilobytes': sum(row['bytes_up'] for row in history) / 1e3 / sum(row['applied_clients'] for row in history)}


def rows_of(records):
    """A row for each update of the precision and share pruned."""
    return [(precision, f'{percent} %', *(
        text_tables.cell([100 * record[protocol][key] for record in of_seeds.values()])
        for protocol in ('max', 'last_5') for key in (S, MT)),
        text_tables.cell([record['last_5']['server/cross_entropy'] for record in of_seeds.values()], 3),
        *(text_tables.cell([record[name] for record in of_seeds.values()], 1) for name in ('below_one', 'kilobytes')),
        str(len(of_seeds))) for (precision, percent), of_seeds in records.items()]


def write(folder, jobs, source):
    """pruning.md, .tex and .json; returns the Markdown."""
    path = folder / f'{STUDY}.json'
    kept = strict_json.read(path) if path.exists() else {}
    records, missing = paper_tables.collect(jobs, source.root, kept, record_of)
    if not records:
        raise VirtualTfError(f'{source.root} has no run of the table {STUDY}; --run makes them all')
    notes = [f'`femnist`, {PRUNING_ROUNDS} rounds, no private weights; mean ± 95 % interval over seeds.', *(
        f'- missing: {precision}, {percent} %, seeds {", ".join(map(str, seeds))}'
        for (precision, percent), seeds in missing.items())]
    text = text_tables.write(folder / STUDY, [(HEADER, rows_of(records))], notes)
    strict_json.write(path, paper_tables.merged(records, jobs, kept))
    return text
