"""docs/results.md and the README's digest, made from what results/ holds: figures are never copied by hand.

What a person has to say about the figures stands in docs/results-remarks.md, by the titles of the page's sections.
"""
import re
import textwrap
from collections.abc import Callable
from typing import NamedTuple

from virtual_tf.core import strict_json
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.report import text_tables
from virtual_tf.runs.summary import MT, S
from virtual_tf.studies import convergence, experiments, paper
from virtual_tf.studies.experiments import BASELINES, OURS

START, END = '<!-- digest: made by virtual-tf tables --docs -->', '<!-- end of digest -->'
HEADER = ('data', 'S', 'better baseline', 'paper', 'difference', '',
          'MT', 'better baseline', 'paper', 'difference', '', 'seeds')
LEGEND = ('S and MT of VIRTUAL in percent, mean over seeds of {protocol}; then the better of FedAvg and FedProx, and '
          'the paper\'s two figures. The difference is paired by seed, ± the 95 % interval of its mean. Won or lost: '
          'the whole interval is on one side of 0; else tied. One seed has no interval.')
BEST_ROUND = 'the best round on test data (`max`, the paper\'s protocol)'


class Section(NamedTuple):
    """A part of the page: what makes its figures, and the function of the results folder that shows them."""
    title: str
    command: str
    make: Callable     # results folder → Markdown; FileNotFoundError if what it needs is not there


def verdict(differences):
    """won, lost or tied by the 95 % interval of the mean of paired differences; a single one decides nothing."""
    mean, half = text_tables.interval(differences)
    if half is None:
        return 'one seed'
    return 'won' if mean - half > 0 else 'lost' if mean + half < 0 else 'tied'


def comparison(summaries, published, column=OURS, protocol='max', cases=experiments.CASES):
    """Rows of HEADER, a case each: this column against the baseline that is better over the seeds they all have.

    summaries: {'case/column': {seed: record}} as results/table2.json; published: the paper's table, or {}. The better
    baseline is chosen for S and for MT apart. What lacks a common seed has no row.
    """
    rows = []
    for case, details in cases.items():
        found = {name: summaries.get(f'{case}/{name}', {}) for name in (column, *BASELINES)}
        seeds = sorted(set.intersection(*map(set, found.values())), key=int)
        if seeds:
            theirs = published.get(details.paper)
            cells = [cell for i, key in enumerate((S, MT)) for cell in _cells(
                {name: [100 * records[seed][protocol][key] for seed in seeds] for name, records in found.items()},
                {name: figures[i] for name, figures in theirs.items()} if theirs else None)]
            rows.append([f'`{case}`', *cells, str(len(seeds))])
    return rows


def _cells(values, published):
    """Five cells of a row, from {column: values by seed} whose first column is compared with the others."""
    ours, *others = values
    best = max(others, key=lambda name: sum(values[name]))
    differences = [mine - theirs for mine, theirs in zip(values[ours], values[best])]
    (mean, _), (other, _), (gain, _) = map(text_tables.interval, (values[ours], values[best], differences))
    return (f'{mean:.2f}', f'{other:.2f} {experiments.COLUMNS[best].label}',
            f'{published[OURS]:.1f} / {max(published[name] for name in BASELINES):.1f}' if published else '–',
            ('' if gain < 0 else '+') + text_tables.cell(differences), verdict(differences))


def caveats(summaries, cases=experiments.CASES):
    """A line for each case whose data is not the paper's."""
    lines = []
    for case, details in cases.items():
        records = [record for name, seeds in summaries.items() if name.split('/')[0] == case
                   for record in seeds.values()]
        texts = dict.fromkeys([details.note, *(record.get('caveat', '') for record in records)]) if records else ()
        if any(texts):
            lines.append(f'- `{case}`: ' + '; '.join(filter(None, texts)) + '\n')
    return ''.join(lines)


def digest(results):
    """VIRTUAL against the better baseline on every data set: as it is now, and else as it was for Table 2."""
    present, earlier = with_defaults(results), strict_json.read(results / 'table2.json')
    done = {name.split('/')[0] for name in present}
    # FEMNIST has one row here.
    cases = {case: details for case, details in convergence.CASES.items() if case != 'femnist-published'}
    left = {case: details for case, details in experiments.CASES.items() if case not in done}
    rows = comparison(present, paper.TABLE_2, cases=cases)
    older = [[f'{name} †', *cells] for name, *cells in comparison(earlier, paper.TABLE_2, cases=left)]
    return ''.join((
        textwrap.fill(LEGEND.format(protocol=BEST_ROUND), 118), '\n\n', text_tables.markdown(HEADER, rows + older),
        '\n', caveats(present, cases), caveats(earlier, left),
        '- †: defaults and sweeps of version 0.2, 60 rounds (text: 40)\n' if older else ''))


def with_defaults(results):
    """{'case/column': {seed: record}} as results/table2.json has them: at convergence, else the study of inference."""
    found = {}
    for name in ('inference', 'convergence'):
        path = results / f'{name}.json'
        kept = strict_json.read(path) if path.exists() else {}
        cases = {key.split('/')[0] for key in kept}
        found = {key: seeds for key, seeds in found.items() if key.split('/')[0] not in cases} | {
            key: {seed: record | record.get('figures', {}) for seed, record in seeds.items()}
            for key, seeds in kept.items()}
    return found


def _compared(path, published, column=OURS, protocol='max', meaning=BEST_ROUND):
    rows = comparison(strict_json.read(path), published, column, protocol)
    return textwrap.fill(LEGEND.format(protocol=meaning), 118) + '\n\n' + text_tables.markdown(HEADER, rows)


def with_digest(readme, made):
    """The README's text with this digest between its two marks."""
    if readme.count(START) != 1 or readme.count(END) != 1 or readme.index(START) > readme.index(END):
        raise VirtualTfError(f'README.md must have the lines {START!r} and {END!r} once each, in this order')
    before, rest = readme.split(START)
    return f'{before}{START}\n{made}{END}{rest.split(END)[1]}'


def remarks_of(path):
    """{title: text} of a file's sections (##); what stands before the first is for its editors."""
    parts = re.split(r'^## +(.+)\n', path.read_text(encoding='utf-8'), flags=re.MULTILINE)[1:]
    return {title.strip(): text.strip() for title, text in zip(parts[::2], parts[1::2])}


def results_page(results, remarks_path):
    """The text of docs/results.md, from the folder results/ and the remarks; what is not there yet says so."""
    remarks = remarks_of(remarks_path)
    unknown = remarks.keys() - {section.title for section in SECTIONS}
    if unknown:
        raise VirtualTfError(f'{remarks_path}: no section of the page is called {sorted(unknown)[0]!r}; there are '
                             f'{", ".join(section.title for section in SECTIONS)}')
    return '\n'.join([INTRODUCTION, *(_section(section, results, remarks.get(section.title)) for section in SECTIONS)])


def _section(section, results, remark):
    try:
        shown = section.make(results).strip('\n')
    except FileNotFoundError:
        shown = 'Not there yet.'
    commands = ''.join(f'    {line}\n' for line in section.command.splitlines())
    return '\n\n'.join(part for part in (f'## {section.title}', commands.rstrip('\n'), shown, remark) if part) + '\n'


def _included(name):
    """A file of results/ as it stands, with its headings below those of the page."""
    def make(results):
        text = (results / name).read_text(encoding='utf-8')
        return re.sub('^#', '###', text, flags=re.MULTILINE)
    return make


def accuracies(results):
    """Table 2 as it stands, after the comparison of VIRTUAL with private weights."""
    return ('With private weights, at VIRTUAL\'s values:\n\n' + text_tables.markdown(HEADER, comparison(
        strict_json.read(results / 'table2.json'), paper.TABLE_2, 'virtual-residual'))
        + '\nEvery run, mean ± 95 % interval over its seeds:\n\n' + _included('table2.md')(results))


def long_visits(results):
    """E = 100: the comparison, then Table 4 as it stands."""
    return _compared(results / 'table4.json', paper.TABLE_4) + '\n' + _included('table4.md')(results)


def held_out(results):
    """What is compared when held-out data has chosen the round."""
    return _compared(results / 'val' / 'table2.json', {}, protocol='val',
                     meaning='the round that was best on held-out training data')


def chosen(results):
    """What every sweep has chosen, its score, and the axes at whose edge that lies."""
    rows = []
    for case in experiments.CASES:
        path = results / 'sweeps' / f'{case}.json'
        parts = strict_json.read(path)['groups'] if path.exists() else {}
        # A group is called sweeps/CASE/METHOD; the line of server steps through its best point has one name more.
        for name in dict.fromkeys('/'.join(name.split('/')[:3]) for name in parts):
            *_, last = mine = [part for each, part in parts.items() if each.split('/')[:3] == name.split('/')]
            # The line goes beyond the grid's steps, so it alone says whether the step lies at an edge.
            edges = dict.fromkeys(edge for part in mine for edge in part['edges']
                                  if part is last or edge != 'server_lr')
            score = max(point['score'] for point in last['points'] if point['score'] is not None)
            rows.append([f'`{case}`', experiments.COLUMNS[name.split('/')[2]].label,
                         ', '.join(f'{key} = {value:g}' for key, value in last['best'].items()), f'{score:.2f}',
                         ', '.join(edges) or '–'])
    return text_tables.markdown(('data', 'method', 'chosen', 'score', 'at an edge'), rows)


def variants(name):
    """What `run` has left in a results.json: S and MT of the last five rounds, by variant."""
    columns = (('S', S, 100, 2), ('MT', MT, 100, 2), ('S cross-entropy', 'server/cross_entropy', 1, 3),
               ('MT cross-entropy', 'mt/cross_entropy', 1, 3))

    def make(results):
        rows = [[f'`{variant}`', *(text_tables.cell([factor * seed['last_5'][key] for seed in seeds.values()], digits)
                                   for _, key, factor, digits in columns), str(len(seeds))]
                for variant, seeds in strict_json.read(results / name)['summaries'].items()]
        return ('Last five rounds, mean ± 95 % interval over seeds; accuracies in percent.\n\n'
                + text_tables.markdown(('variant', *(title for title, *_ in columns), 'seeds'), rows))
    return make


def rivals(results):
    """The table of the rivals as it stands, and its picture with the caption."""
    caption = (results / 'rivals.txt').read_text(encoding='utf-8').strip()
    return f'{_included("rivals.md")(results)}\n![rivals](../results/rivals.png)\n\n{caption}\n'


def pictures(results):
    """Every picture of results/figures with its caption."""
    captions = {path.stem: path.read_text(encoding='utf-8').strip() for path in (results / 'figures').glob('*.txt')}
    return '\n'.join(f'![{name}](../results/figures/{name}.png)\n\n{text}\n' for name, text in sorted(captions.items()))


INTRODUCTION = """# Results

Made by `python -m scripts.tables --docs` from `results/` and from the remarks in
[results-remarks.md](results-remarks.md); change those, not this page. Each section starts with the command that makes
its figures. S is the server's model on all test data, MT each client's own model on its own; ± is the 95 % interval of
a mean over seeds (Student's t). C clients a round, E epochs a visit, B examples a step.
"""
SECTIONS = (
    Section('In short', 'for table in convergence inference 2; do\n'
            '    python -m scripts.tables --table=$table --run --data_dir=DATA; done', digest),
    Section('The data', 'python -m scripts.tables --table=1 --data_dir=DATA', _included('table1.md')),
    Section('Table 2: accuracy', 'python -m scripts.tables --table=2 --run --data_dir=DATA', accuracies),
    Section('Table 2 at convergence', 'python -m scripts.sweep --study=sweeps/convergence-CASE --data_dir=DATA\n'
            'python -m scripts.tables --table=convergence --run --data_dir=DATA', _included('convergence.md')),
    Section('Rounds chosen on held-out data',
            'python -m scripts.tables --table=2 --run --data_dir=DATA --validation_fraction=0.2 \\\n'
            '    --output_dir=runs/val --results_dir=results/val', held_out),
    Section('Sweeps', 'for case in mnist pmnist writers har vsn writers-conv shakespeare; do\n'
            '    python -m scripts.sweep --study=sweeps/$case --data_dir=DATA\n'
            '    cp runs/sweeps/$case/sweep.json results/sweeps/$case.json; done', chosen),
    Section('The paper\'s statements', 'python -m scripts.sweep --study=kl --data_dir=DATA\n'
            'python -m scripts.statements', _included('statements.md')),
    Section('Table 4: E = 100', 'python -m scripts.tables --table=4 --run --data_dir=DATA', long_visits),
    Section('Table 3: sparse updates', 'python -m scripts.tables --table=3 --run --data_dir=DATA',
            _included('table3.md')),
    Section('Private weights', 'python -m scripts.run --seed=0,1,2 --dataset=watch --method=virtual,fedavg \\\n'
            '    --private=none,joint,residual,after --client_lr=0.1 --rounds=60 --output_dir=runs/watch\n'
            'cp runs/watch/results.json results/watch.json', variants('watch.json')),
    Section('Plain FedAvg on MNIST', 'python -m scripts.run --seed=0,1,2 --dataset=mnist --method=fedavg '
            '--client_lr=0.2 --rounds=60 \\\n    --max_gradient_norm=0 --nobacktracking --data_dir=DATA '
            '--output_dir=runs/mnist-fedavg\n'
            'cp runs/mnist-fedavg/results.json results/mnist-fedavg.json', variants('mnist-fedavg.json')),
    Section('What the precisions are worth', 'python -m scripts.tables --table=inference --run --data_dir=DATA',
            _included('inference.md')),
    Section('What an SNR says', 'python -m scripts.tables --table=pruning --run --data_dir=DATA',
            _included('pruning.md')),
    Section('What a posterior knows', 'python -m scripts.tables --table=uncertainty --run --data_dir=DATA',
            _included('uncertainty.md')),
    Section('The rivals', 'python -m scripts.tables --table=rivals --run --data_dir=DATA\n'
            'python -m scripts.bench --model= --rivals --output=results/bench.json', rivals),
    Section('Pictures', 'python -m scripts.figures --data_dir=DATA', pictures),
)
