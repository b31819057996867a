"""VIRTUAL against the baselines, as they are and fine-tuned: paired differences of accuracy and cross-entropy."""
from virtual_tf.core import strict_json
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.report import paper_tables, text_tables
from virtual_tf.report.results_page import verdict
from virtual_tf.runs.summary import MT, S
from virtual_tf.studies.experiments import INFERENCE_CASES, INFERENCE_COLUMNS, OURS

STUDY = 'inference'
MEASURES = {S: ('S accuracy', 100, 2), MT: ('MT accuracy', 100, 2), 'server/cross_entropy': ('S cross-entropy', 1, 3),
            'mt/cross_entropy': ('MT cross-entropy', 1, 3)}
LEGEND = ('{protocol}. Accuracies in percent. Below each baseline its mean over seeds and VIRTUAL\'s difference to it, '
          'paired by seed, ± the 95 % interval of its mean; won or lost: the whole interval is on one side of 0.')
PROTOCOLS = {'last_5': 'Mean of the last five rounds', 'max': 'Best round on test data, the paper\'s protocol'}
OTHERS = [name for name in INFERENCE_COLUMNS if name != OURS]


def jobs_of(given, seeds=None):
    """{(case, column): {seed: Job}} with these settings in place of the study's."""
    return paper_tables.jobs_by_case([f'{STUDY}/{case}' for case in INFERENCE_CASES], given, seeds)


def rows_of(records, protocol):
    """A row a case and measure: VIRTUAL, then every other column with the difference to it."""
    rows = []
    for case in INFERENCE_CASES:
        found = {column: records.get((case, column), {}) for column in INFERENCE_COLUMNS}
        for key, (title, factor, digits) in MEASURES.items():
            values = {column: {seed: factor * record[protocol][key] for seed, record in seeds.items()}
                      for column, seeds in found.items()}
            if values[OURS]:
                rows.append([f'`{case}`', title, text_tables.cell([*values[OURS].values()], digits),
                             *(_against(values[OURS], values[column], digits, 'entropy' in key) for column in OTHERS)])
    return rows


def _against(ours, theirs, digits, lower_is_better):
    seeds = ours.keys() & theirs.keys()
    if not seeds:
        return 'missing'
    mean, _ = text_tables.interval([theirs[seed] for seed in seeds])
    return f'{mean:.{digits}f}: {difference(ours, theirs, digits, lower_is_better)}'


def difference(ours, theirs, digits, lower_is_better):
    """ours − theirs of {seed: value}, paired by the seeds that both have, and whether that is won."""
    differences = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
    gains = [-value for value in differences] if lower_is_better else differences
    return f'{text_tables.cell(differences, digits, sign="+")} {verdict(gains)}'


def write(folder, jobs, source):
    """inference.md, .tex and .json; returns the Markdown."""
    path = folder / f'{STUDY}.json'
    kept = strict_json.read(path) if path.exists() else {}
    records, missing = paper_tables.collect(jobs, source.root, kept)
    if not records:
        raise VirtualTfError(f'{source.root} has no run of the table {STUDY}; --run makes them all')
    header = ('data', 'measure', *(INFERENCE_COLUMNS[column] for column in (OURS, *OTHERS)))
    notes = [f'- `{case}`: {given["rounds"]} rounds, seeds ' + ', '.join(
        str(seed) for seed in sorted(records.get((case, OURS), {}))) + caveat(records, case)
        for case, given in INFERENCE_CASES.items()]
    notes += [f'- missing: {case}/{column}, seeds {", ".join(map(str, seeds))}'
              for (case, column), seeds in missing.items()]
    text = '\n'.join(f'{LEGEND.format(protocol=meaning)}\n\n{text_tables.markdown(header, rows_of(records, protocol))}'
                     for protocol, meaning in PROTOCOLS.items()) + '\n' + '\n'.join(notes) + '\n'
    text_tables.write_text(folder / f'{STUDY}.md', text)
    text_tables.write_text(folder / f'{STUDY}.tex', '\n'.join(
        f'% {meaning}\n{text_tables.latex(header, rows_of(records, protocol))}'
        for protocol, meaning in PROTOCOLS.items()))
    strict_json.write(path, paper_tables.merged(records, jobs, kept))
    return text


def caveat(records, case):
    """What a reader has to know of the data, in brackets."""
    texts = {record['caveat'] for (of, _), seeds in records.items() if of == case for record in seeds.values()}
    return ''.join(f' ({text})' for text in sorted(texts) if text)
