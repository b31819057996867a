"""The methods that came after VIRTUAL beside it, each at its own best: scores, bytes, time, clients nobody has seen."""
import numpy as np

from virtual_tf.core import strict_json
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.methods import registry
from virtual_tf.report import figures, paper_tables, text_tables
from virtual_tf.report.inference_table import difference
from virtual_tf.runs.summary import MT
from virtual_tf.studies import rivals

STUDY = rivals.STUDY
BENCH = 'bench.json'     # beside the table: what scripts.bench --rivals has measured
_CROSS_ENTROPY = 'mt/cross_entropy'
_UNSEEN = ('0', '20')    # epochs of a client that nobody has seen
# Columns of a case's table: (heading, figure of a record, factor, digits)
_MEASURES = (('S accuracy %', 'server/accuracy', 100, 2), ('S cross-entropy', 'server/cross_entropy', 1, 3),
             ('S ECE %', 'server/ece', 100, 2), ('MT accuracy %', MT, 100, 2),
             ('MT cross-entropy', _CROSS_ENTROPY, 1, 3), ('MT ECE %', 'mt/ece', 100, 2),
             ('worst client %', 'mt/accuracy_worst', 100, 2),
             *((f'unseen, {epochs} epochs %', f'unseen/{epochs}', 100, 2) for epochs in _UNSEEN),
             ('MB up', 'bytes_up', 1e-6, 2))
_COMPARED = (('accuracy', MT, 100, 2, False), ('cross-entropy', _CROSS_ENTROPY, 1, 3, True))
LEGEND = ('Mean ± 95 % interval over seeds; S and MT are the mean of the last five rounds. Unseen clients take part in '
          'no round: after 0 epochs the server\'s model, then one visit from it. MB up: what all clients of a round '
          'send, median over rounds. Time: of the training in a round at default values, FedAvg\'s = 1, measured '
          'apart from these runs on data of MNIST\'s shape; a step is the plain one, without guards, private weights '
          'and fine-tuning. Differences are the method\'s minus the other\'s, paired by seed; won or lost: the whole '
          'interval is on one side of 0. A dash: the method has no such model, or nothing was measured.')
CAPTION = ('MT accuracy (mean of the last five rounds, 95 % interval over seeds; the axis is logarithmic in the error) '
           'against what all clients of a round send (median over rounds). What nearly coincides stands side by side.')


def jobs_of(given, seeds=None):
    """{(case, column): {seed: Job}} with these settings in place of the study's."""
    return paper_tables.jobs_by_case([f'{STUDY}/{case}' for case in rivals.CASES], given, seeds)


def record_of(job, root):
    """What is kept of a finished run; S only where rounds change it."""
    whole, folder = paper_tables.record_of(job, root), job.folder(root)
    unseen = folder.summary().get('unseen', {})
    found = whole['last_5'] | {f'unseen/{epochs}': unseen[epochs]['means']['accuracy'] for epochs in unseen}
    if not registry.find(job.settings.method).learns_server:
        found = {key: value for key, value in found.items() if not key.startswith('server/') and key != 'unseen/0'}
    found['bytes_up'] = float(np.nanmedian([row['bytes_up'] for row in folder.history()]))
    return {'figures': found, **{key: whole[key] for key in (
        'rounds', 'never_selected', 'settings', 'caveat', 'git_commit', 'processor')}}


def values_of(seeds, key, factor=1.0):
    """{seed: number, or None where there is none} of {seed: record}"""
    found = {seed: record['figures'].get(key) for seed, record in seeds.items()}
    return {seed: None if value is None else factor * value for seed, value in found.items()}


def of_case(case, records, times):
    """Header and lines: what each method comes to on a case, and what it costs."""
    lines = [[rivals.COLUMNS[column].label, *(text_tables.cell([*values_of(seeds, key, factor).values()], digits)
                                              for _, key, factor, digits in _MEASURES),
              f'{times[column]:.2f}' if column in times else '–', str(len(seeds))]
             for column, seeds in _of(case, records)]
    return (f'`{case}`', *(heading for heading, *_ in _MEASURES), 'time', 'seeds'), lines


def differences(case, records):
    """Header and lines: MT of each method minus that of VIRTUAL and of FedAvg."""
    others = [other for other in (rivals.OURS, rivals.PLAIN) if records.get((case, other))]
    lines = [[rivals.COLUMNS[column].label, *(
        _difference(seeds, records[case, other], measure) if column != other else '–'
        for other in others for measure in _COMPARED)] for column, seeds in _of(case, records)]
    return (f'MT on `{case}`', *(f'{name} − {rivals.COLUMNS[other].label}' for other in others
                                 for name, *_ in _COMPARED)), lines


def _difference(seeds, others, measure):
    _, key, factor, digits, lower_is_better = measure
    ours, theirs = ({seed: value for seed, value in values_of(some, key, factor).items() if value is not None}
                    for some in (seeds, others))
    return difference(ours, theirs, digits, lower_is_better) if ours.keys() & theirs.keys() else '–'


def _of(case, records):
    """(column, {seed: record}) of a case, in the study's order."""
    return [(column, records[case, column]) for column in rivals.COLUMNS if records.get((case, column))]


def cases_of(records):
    return [case for case in rivals.CASES if _of(case, records)]


def chosen(cases):
    """Header and lines: the values that each method's sweep has chosen."""
    lines = [[column.label, *(_listed(rivals.CHOSEN.get(case, {}).get(name, {})) for case in cases)]
             for name, column in rivals.COLUMNS.items()]
    return ('chosen', *(f'`{case}`' for case in cases)), lines


def _listed(values):
    return ', '.join(f'{name} = {value:g}' for name, value in values.items()) or 'defaults'


def times_of(bench):
    """{column: time of a round's training over FedAvg's} of what scripts.bench has measured."""
    rounds = bench['microseconds']['round'] if bench else {}
    return {column: row['median'] / rounds[rivals.PLAIN]['median'] for column, row in rounds.items()}


def steps(bench):
    """Header and lines: what a plain step costs, and what it costs by the method's definition."""
    measured, lines = {column: row['median'] for column, row in bench['microseconds']['step'].items()}, []
    for column, own in measured.items():
        label, given, *_ = rivals.COLUMNS[column]
        gaussian, defined = registry.find(given['method']).gaussian, bench['definitions'].get(column)
        lines.append([label, f'{own:,.0f}', f'{own / measured[rivals.PLAIN]:.2f}',
                      f'{own / measured[rivals.OURS]:.2f}' if gaussian else '–',
                      f'{defined["times"]:g} of {rivals.COLUMNS[defined["of"]].label}' if defined else '–',
                      {True: 'yes', False: 'no', None: '–'}[defined and defined['holds']]])
    return ('a step', 'microseconds', *(f'over {rivals.COLUMNS[other].label}\'s' for other in (
        rivals.PLAIN, rivals.OURS)), 'by definition', 'within 25 %'), lines


def picture(records):
    """MT accuracy against megabytes up a round."""
    cases = {}
    for case in cases_of(records):
        points = cases[case] = {}
        for column, seeds in _of(case, records):
            accuracy, half = text_tables.interval([*values_of(seeds, MT, 100.0).values()])
            megabytes, _ = text_tables.interval([*values_of(seeds, 'bytes_up', 1e-6).values()])
            points[rivals.COLUMNS[column].label] = megabytes, accuracy, half or 0.0
    return figures.against_bytes(cases, 'What a client\'s own model gains from what clients send')


def notes_of(records, missing, source):
    cases = [(case, [record for _, seeds in _of(case, records) for record in seeds.values()])
             for case in cases_of(records)]
    given = [f'Given were {source.named_settings()}.'] if source.given else []
    lines = [f'- `{case}`: {", ".join(map(str, sorted({record["rounds"] for record in found})))} rounds' + ''.join(
        f'; {caveat}' for caveat in dict.fromkeys(record['caveat'] for record in found) if caveat)
        for case, found in cases]
    return [LEGEND, *given, *lines, *paper_tables.unvisited(records),
            *paper_tables.lacking_of(STUDY, missing, source)]


def write(folder, jobs, source):
    """rivals.md, .tex and .json, and the picture rivals.png, .pdf and .txt; returns the Markdown."""
    path, timed = folder / f'{STUDY}.json', folder / BENCH
    kept = strict_json.read(path) if path.exists() else {}
    bench = strict_json.read(timed).get(STUDY, {}) if timed.exists() else {}
    records, missing = paper_tables.collect(jobs, source.root, kept, record_of)
    if not records:
        raise VirtualTfError(f'{source.root} has no run of the table {STUDY}; --run makes them all')
    cases, times = cases_of(records), times_of(bench)
    parts = [part for case in cases for part in (of_case(case, records, times), differences(case, records))]
    text = text_tables.write(path.with_suffix(''), [*parts, chosen(cases), *([steps(bench)] if bench else [])],
                             notes_of(records, missing, source))
    figures.save(picture(records), folder, STUDY, CAPTION)
    strict_json.write(path, paper_tables.merged(records, jobs, kept))
    return text
