"""The page of results and the README's digest, on made-up results; and that the documents are up to date."""
import json
import pathlib

import numpy as np
import pytest

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.report import results_page
from virtual_tf.studies import paper

ROOT = pathlib.Path(__file__).parent.parent.parent


def record(s, mt, protocols=('max', 'last_5'), caveat=''):
    scores = {'server/accuracy': s, 'mt/accuracy': mt, 'server/cross_entropy': 1 - s, 'mt/cross_entropy': 1 - mt}
    return {**{protocol: scores for protocol in protocols}, 'caveat': caveat}


def seeds(*pairs, **options):
    return {str(seed): record(*pair, **options) for seed, pair in enumerate(pairs)}


def write(folder, name, value):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def test_a_difference_is_won_or_lost_only_if_its_whole_interval_is_on_one_side():
    # two values a and b: their mean ± 12.7062·|a − b|/2
    assert results_page.verdict([1.0, 1.1]) == 'won'       # 1.05 ± 0.64
    assert results_page.verdict([-1.0, -1.1]) == 'lost'
    assert results_page.verdict([1.0, 1.2]) == 'tied'      # 1.1 ± 1.27
    assert results_page.verdict([0.0, 0.0]) == 'tied'
    assert results_page.verdict([5.0]) == 'one seed'


def test_the_better_baseline_is_chosen_for_s_and_for_mt_apart_and_differences_are_paired():
    summaries = {'mnist/virtual': seeds((0.93, 0.80), (0.83, 0.80)), 'mnist/fedavg': seeds((0.91, 0.90), (0.81, 0.91)),
                 'mnist/fedprox': seeds((0.90, 0.95), (0.80, 0.94))}
    row, = results_page.comparison(summaries, paper.TABLE_2)
    # S: 88 against FedAvg's 86, by 2 with either seed although the seeds differ by 10
    # MT: 80 against FedProx's 94.5, by −15 and −14: −14.5 ± 12.71·1/2
    assert row == ['`mnist`', '88.00', '86.00 FedAvg', '97.8 / 97.6', '+2.00 ± 0.00', 'won',
                   '80.00', '94.50 FedProx', '97.4 / 96.9', '-14.50 ± 6.35', 'lost', '2']


def test_only_seeds_that_all_have_count():
    baselines = {'har/fedavg': seeds((0.5, 0.5), (0.1, 0.1)), 'har/fedprox': seeds((0.4, 0.4), (0.2, 0.2))}
    row, = results_page.comparison(baselines | {'har/virtual': seeds((0.6, 0.4))}, {})
    assert row == ['`har`', '60.00', '50.00 FedAvg', '–', '+10.00', 'one seed',
                   '40.00', '50.00 FedAvg', '–', '-10.00', 'one seed', '1']
    assert results_page.comparison(baselines | {'har/virtual': {'7': record(1, 1)}}, {}) == []
    assert results_page.comparison(baselines, {}) == []


def test_the_digest_has_a_row_a_data_set_and_says_what_is_not_the_papers(tmp_path):
    write(tmp_path, 'table2.json', {f'{case}/{column}': seeds((0.9, 0.9), caveat='a sample')
                                    for case in ('vsn', 'writers') for column in ('virtual', 'fedavg', 'fedprox')})
    text = results_page.digest(tmp_path)
    lines = text.splitlines()
    assert [line.split(' | ')[0] for line in lines if line.startswith('| `')] == ['| `writers` †', '| `vsn` †']
    assert lines[-3:-1] == ['- `writers`: in the place of FEMNIST; a sample', '- `vsn`: a sample']
    assert 'version 0.2' in lines[-1]
    assert '95 % interval' in text and 'paired' in text and 'max' in text


def test_every_data_set_has_the_row_that_went_furthest(tmp_path):
    columns = ('virtual', 'fedavg', 'fedprox')
    for name, cases, level in (('table2', ('vsn', 'har', 'mnist'), 0.7), ('inference', ('vsn', 'har'), 0.8)):
        write(tmp_path, f'{name}.json', {
            f'{case}/{column}': seeds((level, level)) for case in cases for column in columns})
    write(tmp_path, 'convergence.json', {f'{case}/{column}': {
        seed: {'figures': {'max': values['max']}, 'caveat': ''} for seed, values in seeds((0.9, 0.9)).items()}
        for case in ('vsn', 'femnist') for column in columns})
    found = [line.split(' | ')[:2] for line in results_page.digest(tmp_path).splitlines() if line.startswith('| `')]
    assert found == [['| `vsn`', '90.00'], ['| `har`', '80.00'], ['| `femnist`', '90.00'], ['| `mnist` †', '70.00']]


def test_the_digest_takes_its_place_in_the_readme():
    start, end = results_page.START, results_page.END
    assert results_page.with_digest(f'a\n{start}\nold\n{end}\nb\n', 'new\n') == f'a\n{start}\nnew\n{end}\nb\n'
    for text in ('no mark', f'{start} alone', f'{end}\n{start}', f'{start}{end}{end}'):
        with pytest.raises(VirtualTfError, match='once each'):
            results_page.with_digest(text, 'new')


def test_the_page_shows_what_there_is_with_its_remarks_and_says_what_is_missing(tmp_path):
    write(tmp_path, 'table3.md', '# Table 3 on writers\n\n| a |\n')
    write(tmp_path, 'remarks.md', '# For editors\n\nnot shown\n\n## Table 3: sparse updates\n\n- a remark\n')
    text = results_page.results_page(tmp_path, tmp_path / 'remarks.md')
    part = text[text.index('## Table 3'):text.index('## Private weights')]
    assert part == ('## Table 3: sparse updates\n\n    python -m scripts.tables --table=3 --run --data_dir=DATA\n\n'
                    '### Table 3 on writers\n\n| a |\n\n- a remark\n\n')
    assert 'not shown' not in text
    # All but the included table, the sweeps (an empty table) and the pictures (none) need a file that is not there.
    assert text.count('Not there yet.') == len(results_page.SECTIONS) - 3


def test_a_remark_without_a_section_is_refused(tmp_path):
    write(tmp_path, 'remarks.md', '## Tabel 2\n\nlost\n')
    with pytest.raises(VirtualTfError, match=r"'Tabel 2'.*Table 2: accuracy"):
        results_page.results_page(tmp_path, tmp_path / 'remarks.md')


def test_a_sweep_shows_its_last_part_and_the_edges_that_count(tmp_path):
    def part(best, edges, *scores):
        return {'best': best, 'edges': edges, 'points': [{'settings': {}, 'score': score} for score in scores]}
    write(tmp_path, 'sweeps/har.json', {'groups': {
        # The grid's server_lr is at its edge, the line's is not; a score that is not finite is null.
        'sweeps/har/fedavg': part({'client_lr': 0.1, 'server_lr': 2.0}, ['client_lr', 'server_lr'], 50.0, 60.0),
        'sweeps/har/fedavg/server_lr': part({'client_lr': 0.1, 'server_lr': 2.8}, [], 60.0, None, 61.5),
        'sweeps/har/virtual': part({'client_lr': 0.02}, [], 70.0)}})
    assert results_page.chosen(tmp_path).splitlines()[2:] == [
        '| `har` | FedAvg | client_lr = 0.1, server_lr = 2.8 | 61.50 | client_lr |',
        '| `har` | VIRTUAL | client_lr = 0.02 | 70.00 | – |']


def test_held_out_data_has_a_protocol_of_its_own(tmp_path):
    write(tmp_path, 'val/table2.json', {f'har/{column}': seeds((level, 0.5), protocols=('val',))
                                        for column, level in (('virtual', 0.6), ('fedavg', 0.5), ('fedprox', 0.4))})
    assert '| `har` | 60.00 | 50.00 FedAvg | – | +10.00 | one seed |' in results_page.held_out(tmp_path)


def test_variants_have_means_and_intervals_of_the_last_five_rounds(tmp_path):
    write(tmp_path, 'watch.json', {'summaries': {'virtual-joint': seeds((0.8, 0.5), (0.9, 0.5))}})
    # 80 and 90 %: 85 ± 12.706·5; cross-entropies 0.2 and 0.1
    assert ('| `virtual-joint` | 85.00 ± 63.53 | 50.00 ± 0.00 | 0.150 ± 0.635 | 0.500 ± 0.000 | 2 |'
            in results_page.variants('watch.json')(tmp_path))


def test_the_rivals_have_their_table_their_picture_and_its_caption(tmp_path):
    write(tmp_path, 'rivals.md', '| a |\n')
    with pytest.raises(FileNotFoundError):
        results_page.rivals(tmp_path)
    write(tmp_path, 'rivals.txt', 'a caption\n')
    assert results_page.rivals(tmp_path) == '| a |\n\n![rivals](../results/rivals.png)\n\na caption\n'


def test_the_documents_are_what_the_results_make_of_them():
    results = ROOT / 'results'
    readme = (ROOT / 'README.md').read_text(encoding='utf-8')
    again = 'python -m scripts.tables --docs makes it anew'
    assert results_page.with_digest(readme, results_page.digest(results)) == readme, again
    page = results_page.results_page(results, ROOT / 'docs' / 'results-remarks.md')
    assert page == (ROOT / 'docs' / 'results.md').read_text(encoding='utf-8'), again


def test_every_picture_of_the_page_is_there():
    page = (ROOT / 'docs' / 'results.md').read_text(encoding='utf-8')
    pictures = [part.split(')')[0] for part in page.split('](../results/figures/')[1:]]
    assert pictures and all((ROOT / 'results' / 'figures' / name).exists() for name in pictures)


def rows_of(document):
    """Cells of all tables of a document, by the first of each row."""
    lines = (ROOT / 'docs' / document).read_text(encoding='utf-8').splitlines()
    rows = [[cell.strip() for cell in line.strip('|').split('|')] for line in lines if line.startswith('|')]
    return {first: rest for first, *rest in rows}


@pytest.mark.parametrize('model', ['mlp', 'conv', 'lstm'])
def test_the_speed_of_a_step_is_that_of_the_bench(model):
    text = (ROOT / 'docs' / 'performance.md').read_text(encoding='utf-8')
    bench = json.loads((ROOT / 'results' / 'bench.json').read_text())[model]
    for name, places in bench['microseconds'].items():
        one = f'{places["one core"]["median"]:,.0f}' if 'one core' in places else '–'
        assert f'| {name} | {places["all cores"]["median"]:,.0f} | {one} |' in text, name
    for name, ratio in bench['ratios'].items():
        assert f'| {name} | {ratio:.2f} |' in text, name


def test_the_times_of_workers_on_ray_are_those_of_their_bench():
    text = (ROOT / 'docs' / 'performance.md').read_text(encoding='utf-8')
    bench = json.loads((ROOT / 'results' / 'bench_ray.json').read_text())
    for model, of_engines in bench['seconds'].items():
        one, two, threads = (np.median(of_engines[name]) for name in ('one worker', 'two workers', 'two threads'))
        assert f'| `{model}` | {one:.2f} | {two:.2f} | {threads:.2f} | {two / one:.2f} | {two / threads:.2f} |' in text
    for row in bench['cohorts']:
        assert (f'| {row["selected"]:,} | {row["clients"]:,} | {row["seconds"]:.3f} | {row["seconds_transport"]:.4f} | '
                f'{row["bytes_moved"] / 1e6:.2f} | {row["driver_peak_mb"]:,.0f} |') in text


def test_the_costs_of_flower_are_those_that_were_measured():
    rows, cases = rows_of('deployment.md'), json.loads((ROOT / 'results' / 'flower.json').read_text())['cases']
    for name, case in cases.items():
        assert rows[name] == [*(f'{case[key] / 1000:,.1f}' for key in ('payload up', 'wire up', 'wire down')),
                              f'{case["wire up"] / cases["VIRTUAL"]["wire up"]:.2f}'], name
    for name, key in (('all of it', 'seconds'), ('the simulator', 'seconds of the simulator')):
        assert rows[name] == [f'{case[key]:.2f}' for case in cases.values()]
