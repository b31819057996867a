"""What a posterior knows: calibration, the worst clients, clients nobody has seen, foreign examples; by method."""
from virtual_tf.core import strict_json
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.methods import registry
from virtual_tf.report import paper_tables, text_tables
from virtual_tf.runs import opened, out_of_distribution
from virtual_tf.runs.out_of_distribution import SCORES
from virtual_tf.studies import experiments, grids

STUDY = 'uncertainty'
REFERENCE = next(name for name, method in registry.METHODS.items() if method.reference)
_MEASURES = (('accuracy', 'accuracy %', 100, 2), ('cross_entropy', 'cross-entropy', 1, 3), ('ece', 'ECE %', 100, 2),
             ('brier', 'Brier', 1, 3), ('accuracy_worst', 'worst client %', 100, 2),
             ('accuracy_p10', '10th percentile %', 100, 2))
_WAYS = {'': ('means', ''), '_sampled': ('sampled', ', {} samples')}     # ending of a model: key, label


def jobs_of(given, seeds=None):
    """{(case, column): {seed: Job}} of the study, with these settings in place of its own."""
    groups = grids.of_studies([STUDY], given, seeds)
    grids.check(groups, 'val')
    return {tuple(group.name.split('/')[1:]): group.points[()] for group in groups}


def collect(jobs, source, kept):
    """paper_tables.collect, with the clients nobody has seen and the foreign examples in the records."""
    def record_of(job, root):
        folder = root / job.name
        return paper_tables.record_of(job, root) | {
            'unseen': job.folder(root).summary().get('unseen', {}),
            'ood': foreign(folder, experiments.UNCERTAINTY[job.name.split('/')[1]].against, source.data_dir)}
    return paper_tables.collect(jobs, source.root, kept, record_of)


def foreign(folder, against, data_dir):
    """{data set: {score: AUROC}} of a finished run: what ood.json in its folder has, or as measured now."""
    path = folder / out_of_distribution.FILE
    found = strict_json.read(path) if path.exists() else {}
    if any(name not in found for name in against):
        run = opened.open_run(folder, data_dir)
        found |= {name: out_of_distribution.measure(run, name, data_dir) for name in against if name not in found}
        strict_json.write(path, found)
    return {name: found[name] for name in against}


def of_model(records, model):
    """Header and lines of S or MT, the last five rounds: a line for each case, method and way to predict.

    A second line has VIRTUAL's differences to the reference's predictions at the means, paired by seed.
    """
    lines = []
    for (case, column), seeds in records.items():
        theirs = records.get((case, REFERENCE), {}) if column == experiments.OURS else {}
        common = [(record, theirs[seed]) for seed, record in seeds.items() if seed in theirs]
        for ending, (_, label) in _WAYS.items():
            if all(f'{model}{ending}/accuracy' in record['last_5'] for record in seeds.values()):
                name = _name(column, label, seeds)
                lines.append([f'`{case}`', name, *(text_tables.cell(
                    [factor * record['last_5'][f'{model}{ending}/{key}'] for record in seeds.values()], digits)
                    for key, _, factor, digits in _MEASURES), str(len(seeds))])
                if common:
                    lines.append([f'`{case}`', f'{name} − {experiments.COLUMNS[REFERENCE].label}', *(text_tables.cell(
                        [factor * (ours['last_5'][f'{model}{ending}/{key}'] - other['last_5'][f'{model}/{key}'])
                         for ours, other in common], digits, sign='+') for key, _, factor, digits in _MEASURES),
                        str(len(common))])
    title = {'server': 'S', 'mt': 'MT'}[model]
    return (f'{title} on', 'method', *(heading for _, heading, *_ in _MEASURES), 'seeds'), lines


def newcomers(records):
    """Header and lines of clients nobody has seen, by epochs of adaptation."""
    epochs = next((list(record['unseen']) for seeds in records.values() for record in seeds.values()
                   if record['unseen']), [])
    lines = []
    for (case, column), seeds in records.items():
        for way, label in _WAYS.values():
            found = [record['unseen'] for record in seeds.values() if way in record['unseen'].get('0', ())]
            if found:
                lines.append([f'`{case}`', _name(column, label, seeds), *(text_tables.cell(
                    [factor * one[number][way][name] for one in found], digits)
                    for name, factor, digits in (('accuracy', 100, 2), ('cross_entropy', 1, 3))
                    for number in epochs)])
    headings = (f'{name} after {number}' for name in ('accuracy %', 'cross-entropy') for number in epochs)
    return ('unseen clients of', 'method', *headings), lines


def outsiders(records):
    """Header and lines of the AUROC of foreign examples against the run's own test data."""
    lines = []
    for (case, column), seeds in records.items():
        for against in next(iter(seeds.values()))['ood']:
            lines.append([f'`{case}`', against, _name(column, '', seeds), *(text_tables.cell(
                [record['ood'][against].get(score) for record in seeds.values()], 3) for score in SCORES)])
    return ('data', 'against', 'method', *(f'AUROC of {title}' for title in SCORES.values())), lines


def _name(column, label, seeds):
    settings = next(iter(seeds.values()))['settings']
    return experiments.COLUMNS[column].label + label.format(settings['eval_samples'])


def write(folder, jobs, source):
    """uncertainty.md, .tex and .json; returns the Markdown."""
    path = folder / f'{STUDY}.json'
    kept = strict_json.read(path) if path.exists() else {}
    records, missing = collect(jobs, source, kept)
    if not records:
        raise VirtualTfError(f'{source.root} has no run of the study {STUDY}; --run makes them, or '
                             f'{source.command([STUDY])}')
    parts = [of_model(records, 'server'), of_model(records, 'mt'), newcomers(records), outsiders(records)]
    notes = ['Mean ± 95 % interval over seeds; S and MT are the mean of the last five rounds, predictions at the mean '
             'weights or averaged over samples of them. ECE: 15 bins, all targets together. Unseen clients take part '
             'in no round: after 0 epochs the server\'s model, then one visit from it. AUROC: how often a foreign '
             'example is less certain than a test example; `shuffled` is the test data with its features in another '
             'order.',
             *dict.fromkeys(f'- `{case}`: {record["rounds"]} rounds' for (case, _), seeds in records.items()
                            for record in seeds.values()),
             *dict.fromkeys(f'- `{case}`: {record["caveat"]}' for (case, _), seeds in records.items()
                            for record in seeds.values() if record['caveat']),
             *paper_tables.lacking_of(STUDY, missing, source)]
    text = text_tables.write(path.with_suffix(''), parts, notes)
    strict_json.write(path, paper_tables.merged(records, jobs, kept))
    return text
