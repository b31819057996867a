from toys import make_dataset, make_settings

from virtual_tf.report import comparison


def summary(level, rounds=60):
    values = {f'{model}/{metric}': level for model in ('server', 'mt') for metric in ('accuracy', 'cross_entropy')}
    return {'max': values, 'last_5': values, 'rounds': rounds}


def test_the_report_has_what_all_share_and_what_each_variant_has_of_its_own():
    runs = [make_settings(method=method, seed=seed) for seed in (0, 1) for method in ('virtual', 'fedavg')]
    results = comparison.report(runs, list(map(summary, (0.5, 0.25, 0.7, 0.25))), make_dataset())
    assert (results['dataset'], results['clients']) == ('toy', 4)
    assert list(results['summaries']['virtual']) == ['0', '1']
    assert results['settings']['rounds'] == 3 and not {'seed', 'method', 'damping'} & set(results['settings'])
    assert results['settings_of']['virtual']['damping'] == 0.8 and 'seed' not in results['settings_of']['virtual']
    # FedAvg has nothing that VIRTUAL has not, and toys give both the same of it.
    assert results['settings_of']['fedavg'] == {'method': 'fedavg'}


def test_the_table_has_means_and_95_percent_intervals_over_seeds():
    table = comparison.table({'virtual': {'0': summary(0.5), '1': summary(0.7)}, 'fedavg': {'0': summary(0.25)}})
    head, titles, virtual, fedavg = table.splitlines()
    assert head.split() == ['last', '5', 'rounds', 'best', 'round', '(paper)']
    assert titles.split() == 'method S acc % MT acc % S xent MT xent S acc % MT acc %'.split()
    # 0.5 and 0.7: mean 0.6, half width 12.7062·0.1
    assert virtual.split() == ['virtual', *2 * ['60.00', '±', '127.06'], *2 * ['0.600', '±', '1.271'],
                               *2 * ['60.00', '±', '127.06']]
    assert fedavg.split() == ['fedavg', '25.00', '25.00', '0.250', '0.250', '25.00', '25.00']
    assert len(virtual) == len(fedavg) == len(titles)


def test_the_last_rounds_are_as_many_as_there_were():
    for rounds, title in ((1, 'last round'), (3, 'last 3 rounds'), (5, 'last 5 rounds'), (60, 'last 5 rounds')):
        assert f' {title} ' in comparison.table({'a': {'0': summary(0.5, rounds)}}).splitlines()[0]


def test_a_metric_of_one_s_own_has_its_columns_at_the_end():
    values = {f'{model}/{metric}': 0.5 for model in ('server', 'mt') for metric in ('accuracy', 'brier')}
    table = comparison.table({'a': {'0': {'max': values, 'last_5': values, 'rounds': 9}}})
    assert 'S brier' in table and 'MT brier' in table and table.splitlines()[2].split().count('0.500') == 2
