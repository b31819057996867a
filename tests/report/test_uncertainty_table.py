"""The table of what a posterior knows, from records as they are kept."""
from virtual_tf.core import strict_json
from virtual_tf.report import uncertainty_table
from virtual_tf.report.sources import Source
from virtual_tf.studies import experiments


def record(job, level):
    """What is kept of a run all of whose figures are `level`."""
    ways = ['', '_sampled'] if job.settings.method == experiments.OURS else ['']
    figures = {f'{model}{way}/{name}': level for model in ('server', 'mt') for way in ways
               for name, *_ in uncertainty_table._MEASURES}
    newcomer = {'means' if not way else 'sampled': {'accuracy': level, 'cross_entropy': level} for way in ways}
    scores = uncertainty_table.SCORES if len(ways) > 1 else ['entropy']
    return {'last_5': figures, 'settings': job.settings.to_dict(), 'caveat': '', 'rounds': 60,
            'unseen': {epochs: newcomer for epochs in ('0', '1', '5', '20')},
            'ood': {name: dict.fromkeys(scores, level)
                    for name in experiments.UNCERTAINTY[job.name.split('/')[1]].against}}


def test_kept_records_make_the_table_and_what_is_missing_has_its_command(tmp_path):
    jobs = uncertainty_table.jobs_of({}, seeds=[0, 1])
    kept = {'/'.join(key): {str(seed): record(job, 0.5 + 0.25 * seed) for seed, job in of_seeds.items()}
            for key, of_seeds in jobs.items() if key != ('har', 'fedprox')}
    strict_json.write(tmp_path / 'uncertainty.json', kept)
    text = uncertainty_table.write(tmp_path, jobs, Source(tmp_path / 'runs', 'DATA'))
    lines = [[cell.strip() for cell in line.strip('|').split('|')] for line in text.splitlines() if line[:1] == '|']
    # 0.5 and 0.75: mean 0.625, half width 12.7062 · 0.125
    assert ['`har`', 'VIRTUAL, 10 samples', '62.50 ± 158.83', '0.625 ± 1.588', '62.50 ± 158.83', '0.625 ± 1.588',
            '62.50 ± 158.83', '62.50 ± 158.83', '2'] in lines
    assert ['`mnist-dirichlet`', 'femnist', 'FedAvg', '0.625 ± 1.588', '–', '–'] in lines
    of_newcomers = [line for line in lines if line[:2] == ['`femnist`', 'FedAvg'] and len(line) == 10]
    assert of_newcomers == [['`femnist`', 'FedAvg', *['62.50 ± 158.83'] * 4, *['0.625 ± 1.588'] * 4]]
    assert '- missing: uncertainty/har/fedprox (seeds 0, 1): `python -m scripts.sweep --study=uncertainty/har' in text
    assert strict_json.read(tmp_path / 'uncertainty.json') == kept


def test_the_study_keeps_clients_out_and_samples():
    for (case, column), of_seeds in uncertainty_table.jobs_of({}).items():
        assert list(of_seeds) == [0, 1, 2, 3, 4]
        settings = of_seeds[0].settings
        assert (settings.unseen_fraction, settings.eval_samples) == (0.2, 10)
        assert settings.split == ('dirichlet:0.1' if case == 'mnist-dirichlet' else '') and settings.method == column


def test_differences_to_fedavg_are_paired_by_seed():
    jobs = uncertainty_table.jobs_of({}, seeds=[0, 1, 2])
    # VIRTUAL is 0.1 above FedAvg with both seeds that they share, though levels differ by seed.
    records = {('har', 'fedavg'): {seed: record(jobs['har', 'fedavg'][seed], 0.1 * seed) for seed in (0, 1)},
               ('har', 'virtual'): {seed: record(jobs['har', 'virtual'][seed], 0.1 * seed + 0.1) for seed in (0, 1, 2)}}
    _, lines = uncertainty_table.of_model(records, 'mt')
    for name in ('VIRTUAL − FedAvg', 'VIRTUAL, 10 samples − FedAvg'):
        line = next(line for line in lines if line[1] == name)
        assert line[2:] == ['+10.00 ± 0.00', '+0.100 ± 0.000', '+10.00 ± 0.00', '+0.100 ± 0.000', '+10.00 ± 0.00',
                            '+10.00 ± 0.00', '2']
