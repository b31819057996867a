import numpy as np
from toys import make_dataset, make_settings

from virtual_tf.data.federated import FederatedDataset, Split
from virtual_tf.report import comparison
from virtual_tf.runs import driver


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
    # FedAvg has nothing that VIRTUAL has not, and toys give both the same of it, but for one usual value.
    assert results['settings_of']['fedavg'] == {'method': 'fedavg', 'fine_tune': 0, 'mt_share': 1.0}


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
    values = {f'{model}/{metric}': 0.5 for model in ('server', 'mt') for metric in ('accuracy', 'brier', 'top3')}
    table = comparison.table({'a': {'0': {'max': values, 'last_5': values, 'rounds': 9}}})
    assert 'S top3' in table and 'MT top3' in table and 'brier' not in table
    assert table.splitlines()[2].split().count('0.500') == 2


def ending(**values):
    return {'last_5': {key.replace('__', '/'): value for key, value in values.items()}, 'rounds': 9}


def test_details_show_every_model_and_what_differs_from_the_reference_by_seed():
    rows = {'virtual': {'0': ending(server__accuracy=0.5, server__ece=0.10, server_sampled__accuracy=0.75,
                                    server_sampled__ece=0.25),
                        '1': ending(server__accuracy=0.5, server__ece=0.20, server_sampled__accuracy=0.75,
                                    server_sampled__ece=0.25)},
            'fedavg': {'0': ending(server__accuracy=0.25, server__ece=0.05),
                       '1': ending(server__accuracy=0.25, server__ece=0.15)}}
    lines = comparison.details(rows).splitlines()
    assert [line.split('  ')[0] for line in lines[1:]] == [
        'virtual, S', 'virtual, S sampled', 'fedavg, S', 'virtual − fedavg, S', 'virtual − fedavg, S sampled']
    assert lines[0].split() == ['acc', '%', 'ECE', '%']
    # seed by seed: 0.10 − 0.05 and 0.20 − 0.15
    assert lines[4].split()[-6:] == ['+25.00', '±', '0.00', '+5.00', '±', '0.00']
    # sampled predictions against the only ones that FedAvg has: 0.25 − 0.05, 0.25 − 0.15
    assert lines[5].split()[-6:][3] == '+15.00'
    assert comparison.details({'virtual': {'0': summary(0.5)}}) == ''     # of before there were more metrics


def test_newcomers_have_a_column_for_each_visit():
    ways = {'means': {'accuracy': 0.5, 'cross_entropy': 1.0}}
    found = comparison.newcomers({'a': {'0': ending() | {'unseen': {'0': ways, '5': ways}}}, 'b': {'0': ending()}})
    header, line = found.splitlines()
    assert header.split('  ')[0] == 'unseen, after epochs' and line.split() == ['a', '50.00', '50.00', '1.000', '1.000']
    assert comparison.newcomers({'a': {'0': ending()}}) == ''


def skewed(clients=30, size=50, share=0.06):
    """Two classes that the features do not tell apart, 6 % of them positive."""
    generator = np.random.default_rng(0)

    def examples():
        y = (np.arange(size) < round(share * size)).astype(np.int32)
        return generator.normal(size=(size, 3)).astype(np.float32), y

    train, test = (Split.of([examples() for _ in range(clients)]) for _ in range(2))
    return FederatedDataset('rare', tuple(map(str, range(clients))), train, test, 2)


def test_with_rare_positives_the_comparison_says_when_accuracy_is_a_constant_s(tmp_path):
    dataset, settings = skewed(), make_settings(method='fedavg', rounds=3, epochs=5, batch_size=25, use_bias=True)
    results, _ = driver.run(settings, dataset, tmp_path, progress=False)
    rows = comparison.report([settings], [results], dataset)['summaries']
    end = results['last_5']
    # 3 of 50 in each client
    assert end['server/accuracy'] == end['server/constant_accuracy'] == 0.94
    assert end['server/balanced_accuracy'] == 0.5 and abs(end['server/auroc'] - 0.5) < 0.1
    sentence, *_ = comparison.constants(rows)
    assert sentence.startswith(
        'fedavg: S is right in 94.00 %, no better than always to say the commonest class (94.00 %); see its balanced')
    header, first, *_ = comparison.details(rows).splitlines()
    assert header.split()[2:5] == ['balanced', '%', 'AUROC'] and first.split()[3] == '50.00'
    better = {'fedavg': {'0': {'last_5': end | {'server/accuracy': 0.96, 'mt/accuracy': 0.96}}}}
    assert comparison.constants(better) == []
