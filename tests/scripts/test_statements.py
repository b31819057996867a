import json

import numpy as np
import pytest

from scripts import statements
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.studies import experiments


def write(root, each, s, mt):
    folder = root / each.folder(0)
    folder.mkdir(parents=True)
    (folder / 'config.json').write_text(json.dumps({'settings': each.settings(0).__dict__, 'data': {'clients': 50}}))
    (folder / 'summary.json').write_text('{}')
    (folder / 'metrics.jsonl').write_text(''.join(json.dumps(
        {'round': i + 1, 'server/accuracy': a, 'mt/accuracy': b, 'server/cross_entropy': 1 - a,
         'mt/cross_entropy': 1 - b}) + '\n' for i, (a, b) in enumerate(zip(s, mt))))


def test_unrest_is_of_the_second_half():
    assert statements.unrest(np.array([0.0, 9.0, 0.0, 1.0, 1.0, 3.0])) == pytest.approx(1.0)     # 1 → 1 → 3


def test_the_first_round_with_nine_tenths_of_the_end():
    assert statements.first_reaching(np.array([0.0, 0.5, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0])) == 3


def test_each_statement_has_its_figures(tmp_path):
    with pytest.raises(VirtualTfError, match='no finished run'):
        statements.report(tmp_path, {}, {})
    s, late = [0.2] + [0.8] * 9, [0.1] * 4 + [0.7] * 6
    write(tmp_path, experiments.table2('writers', 'virtual'), s, late)
    write(tmp_path, experiments.table2('writers', 'fedavg'), [0.75] * 10, [0.9] * 10)
    write(tmp_path, experiments.kl_study(1e-5), s, late)
    levels = {'virtual': (0.8, 0.7), 'virtual-residual': (0.8, 0.95), 'fedavg': (0.75, 0.9), 'fedprox': (0.7, 0.6)}
    summaries = {f'writers/{column}': {'0': {
        protocol: dict(zip((statements.S, statements.MT), pair)) for protocol in ('max', 'last_5')}}
        for column, pair in levels.items()}
    text = statements.report(tmp_path, summaries, {})
    # S has its level in round 2, MT in round 5; 50 clients, 10 a round
    assert '| `writers` | VIRTUAL | 0.00 | 0.00 | 3.0 | 5.0 |' in text
    assert '| 1e-05 | 0.2 | 0.3 | 80.00 | 70.00 |' in text
    assert '| `writers` | -10.00 | MT above S | no | 1 |' in text
    assert '| `writers` | VIRTUAL | +5.00 | -20.00 | +5.00 | -20.00 | FedAvg, FedProx | 1 |' in text
    assert '| `writers` | VIRTUAL, private weights | +5.00 | +5.00 | +5.00 | +5.00 | FedAvg, FedProx | 1 |' in text
    # A statement without a run says so, and seeds that a baseline has not are no comparison.
    text = statements.report(tmp_path / 'empty', {name: {str(int('fedprox' in name)): record['0']}
                                                  for name, record in summaries.items()}, {})
    assert 'MT is steadier' in text and text.count('has no run for this') == 3 and 'nan' not in text
