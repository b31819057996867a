"""The paper's Table 2 at convergence, decided: VIRTUAL against the better baseline in every measure, paired by seed."""
import math

from virtual_tf.core import strict_json
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.report import paper_tables, text_tables
from virtual_tf.report.inference_table import difference
from virtual_tf.runs.summary import MT, MT_VISITED, SETTLED, S, largest_fall, summarise
from virtual_tf.studies import convergence, paper
from virtual_tf.studies.convergence import BASELINES, CASES, COLUMNS, OURS, WAYS

STUDY = convergence.STUDY
# Columns: (heading, figure of a record, factor, digits, whether less is better)
MEASURES = (('S accuracy %', S, 100, 2, False), ('S cross-entropy', 'server/cross_entropy', 1, 3, True),
            ('S ECE %', 'server/ece', 100, 2, True), ('MT accuracy %', MT, 100, 2, False),
            ('MT cross-entropy', 'mt/cross_entropy', 1, 3, True), ('MT ECE %', 'mt/ece', 100, 2, True))
# Not as a best round: early ones have few clients that have trained.
VISITED = ('MT of the visited %', MT_VISITED, 100, 2, False)
BEST_ROUNDS = ('max', 'authors')
PROTOCOLS = paper_tables.PROTOCOLS | {'authors': 'best of as many rounds as the authors had'}
LEGEND = ('Mean ± 95 % interval over seeds. A difference is VIRTUAL\'s minus that of the better baseline (in brackets: '
          'the one with the better mean of that measure), paired by seed, ± the 95 % interval of its mean; won or '
          'lost: the whole interval is on one side of 0. `mixed`: a client deploys what lies at VIRTUAL\'s γ between '
          'the server\'s weights and its own; `tuned`: its weights after as many epochs as VIRTUAL tunes. Visited: '
          'clients that have trained.')


def jobs_of(given, seeds=None):
    """{(case, column): {seed: Job}} with these settings in place of the study's, for the cases that have been swept."""
    return paper_tables.jobs_by_case([part for case in CASES if case in convergence.CHOSEN
                                      for part in convergence.parts(case)], given, seeds)


def record_of(job, root):
    """What is kept of a finished run: the shown figures by protocol."""
    whole, folder = paper_tables.record_of(job, root), job.folder(root)
    authors = CASES[job.name.split('/')[1]].authors
    if 0 < authors < job.settings.rounds:     # the first rounds of a longer run are those of a shorter one
        whole['authors'] = summarise(folder.history(authors))['max']
    return {'figures': {protocol: {key: whole[protocol][key] for _, key, *_ in measures(protocol)
                                   if key in whole[protocol]}
                        for protocol in PROTOCOLS if protocol in whole},
            'largest_fall': largest_fall(folder.history()),
            **{key: whole[key] for key in (
                'rounds', 'seconds', 'never_selected', 'settings', 'caveat', 'git_commit', 'processor')}}


def measures(protocol):
    """Those that a protocol has."""
    return MEASURES if protocol in BEST_ROUNDS else (*MEASURES, VISITED)


def values_of(seeds, protocol, key, factor=1.0):
    """{seed: number, or None where there is none} of {seed: record}"""
    found = {seed: record['figures'].get(protocol, {}).get(key) for seed, record in seeds.items()}
    return {seed: None if value is None or not math.isfinite(value) else factor * value
            for seed, value in found.items()}


def of_case(case, records, protocol):
    """Header and lines: every column, then VIRTUAL against the better baseline, deployed in each of the ways."""
    found = {column: records[case, column] for column in COLUMNS if records.get((case, column))}
    lines = [[COLUMNS[column].label, *(text_tables.cell([*values_of(seeds, protocol, key, factor).values()], digits)
                                       for _, key, factor, digits, _ in measures(protocol)), str(len(seeds))]
             for column, seeds in found.items()]
    for ours in [column for column in (OURS, 'authors', 'paper') if column in found]:
        for way in WAYS if ours == OURS else ('',):
            others = {name: found[f'{name}{way}'] for name in BASELINES if f'{name}{way}' in found}
            if others:
                lines.append([f'{COLUMNS[ours].label} − better baseline{way.replace("-", ", ")}', *(
                    against(found[ours], others, protocol, measure) for measure in measures(protocol)), ''])
    if protocol in BEST_ROUNDS:
        lines.append(['paper: VIRTUAL / better baseline', *_published(case), ''])
    return (f'`{case}`, {protocol.replace("_", " ")}', *(title for title, *_ in measures(protocol)), 'seeds'), lines


def falls(records):
    """Header and lines: the largest fall of S of every column on every case, over all seeds."""
    cases = cases_of(records)
    header = (f'largest fall of S in a round after round {SETTLED}, points', *(f'`{case}`' for case in cases))
    return header, [[COLUMNS[column].label, *(
        f'{max(record["largest_fall"] for record in records[case, column].values()):.1f}'
        if records.get((case, column)) else '–' for case in cases)] for column in COLUMNS]


def against(ours, others, protocol, measure):
    """The difference to the better of the others {column: {seed: record}}, by the seeds that all have."""
    _, key, factor, digits, lower_is_better = measure
    values = {name: _numbers(seeds, protocol, key, factor) for name, seeds in others.items()}
    mine = _numbers(ours, protocol, key, factor)
    seeds = set(mine).intersection(*values.values())
    if not seeds:
        return '–'
    sign = -1 if lower_is_better else 1
    best = max(values, key=lambda name: sign * sum(values[name][seed] for seed in seeds))
    label = COLUMNS[best].label.split(',')[0]
    return f'{difference({seed: mine[seed] for seed in seeds}, values[best], digits, lower_is_better)} ({label})'


def _numbers(seeds, protocol, key, factor):
    return {seed: value for seed, value in values_of(seeds, protocol, key, factor).items() if value is not None}


def _published(case):
    theirs = paper.TABLE_2[CASES[case].paper]
    best = [max(theirs[name][i] for name in BASELINES) for i in range(2)]
    shown = {key: f'{theirs[OURS][i]:.1f} / {best[i]:.1f}' for i, key in enumerate((S, MT))}
    return [shown.get(key, '') for _, key, *_ in MEASURES]


def cases_of(records):
    return [case for case in CASES if any(of == case for of, _ in records)]


def notes_of(records, missing, source):
    lines = []
    for case in cases_of(records):
        found = [record for (of, _), seeds in records.items() if of == case for record in seeds.values()]
        texts = dict.fromkeys([CASES[case].note, *(record['caveat'] for record in found)])
        lines.append(f'- `{case}`: {", ".join(map(str, sorted({record["rounds"] for record in found})))} rounds'
                     + ''.join(f'; {text}' for text in texts if text))
    lacking = paper_tables.lacking_of(STUDY, missing, source)
    unswept = [case for case in CASES if case not in convergence.CHOSEN]
    if unswept:
        lacking.append(f'- not swept yet, so not there: {", ".join(f"`{case}`" for case in unswept)}')
    meanings = '; '.join(f'`{name.replace("_", " ")}`: {meaning}' for name, meaning in PROTOCOLS.items())
    return [LEGEND, f'{meanings}.', *lines, *paper_tables.unvisited(records), *lacking]


def write(folder, jobs, source):
    """convergence.md, .tex and .json; returns the Markdown."""
    path = folder / f'{STUDY}.json'
    kept = strict_json.read(path) if path.exists() else {}
    records, missing = paper_tables.collect(jobs, source.root, kept, record_of)
    if not records:
        raise VirtualTfError(f'{source.root} has no run of the table {STUDY}; play a sweep of it, enter what that has '
                             'chosen in studies/convergence.py, and give --run')
    parts = [of_case(case, records, protocol) for case in cases_of(records) for protocol in PROTOCOLS
             if any(protocol in record['figures'] for (of, _), seeds in records.items() if of == case
                    for record in seeds.values())] + [falls(records)]
    text = text_tables.write(path.with_suffix(''), parts, notes_of(records, missing, source))
    strict_json.write(path, paper_tables.merged(records, jobs, kept))
    return text
