import json

import numpy as np
import pytest

from scripts import bench_scale
from virtual_tf.methods.registry import make_settings


@pytest.fixture
def small(monkeypatch):
    for name, value in {'CLIENTS': (10, 12, 15), 'EXAMPLES': 4, 'TEST_EXAMPLES': 2, 'FEATURES': 3, 'CHUNK': 7,
                        'WARM_UP': 1, 'MEASURED': 2, 'CHECKPOINT_EVERY': 2}.items():
        monkeypatch.setattr(bench_scale, name, value)
    monkeypatch.setattr(bench_scale, 'make_settings', lambda given: make_settings(given | {'compile': 'graph'}))


def test_a_drift_of_the_machine_does_not_enter_the_ratios():
    drift = np.random.default_rng(0).uniform(1, 3, (4, 18))
    rows = bench_scale.compare([{100: list(row), 1_000: list(row), 10_000: list(1.1 * row)} for row in drift])
    assert [row['clients'] for row in rows] == [100, 1_000, 10_000]
    np.testing.assert_allclose([row['ratio'] for row in rows], [1.0, 1.0, 1.1])
    np.testing.assert_allclose(rows[2]['ratio_by_process'], [1.1] * 4)
    np.testing.assert_allclose(rows[2]['round_seconds'], 1.1 * np.median(drift))
    assert rows[2]['fastest'] < rows[2]['quartiles'][0] < rows[2]['round_seconds'] < rows[2]['quartiles'][1]
    assert json.dumps(rows)


def test_all_populations_train_through_one_trace(small):
    simulations = bench_scale.make_simulations(bench_scale.CLIENTS)
    for simulation in simulations.values():
        simulation.play_round(simulation.start())
    for simulation in simulations.values():
        assert simulation.algorithm.client_update.experimental_get_tracing_count() == 1


def test_populations_are_made_once_and_measured_again_and_again(small, tmp_path):
    bench_scale.fill(tmp_path)
    assert {path.name: len(list((path / 'clients').iterdir())) for path in tmp_path.iterdir()} == {
        '10': 10, '12': 12, '15': 15}
    seconds = bench_scale.time_rounds(tmp_path)
    assert {clients: len(values) for clients, values in seconds.items()} == {10: 2, 12: 2, 15: 2}
    assert all(second > 0 for values in seconds.values() for second in values)
    measured = bench_scale.measure_memory(tmp_path, 15)
    assert measured['peak_mb'] > 100 and 0 < measured['checkpoint_mb'] < measured['folder_mb']
