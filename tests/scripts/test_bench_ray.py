import json

import pytest

from scripts import bench_ray, bench_rows

TIMES = {'one worker': [[2.0, 2.0, 9.0]], 'two workers': [[1.0, 1.0, 1.0]], 'two threads': [[4.0]]}
ROW = {'selected': 1_000, 'clients': 10_000, 'seconds': 3.0, 'seconds_evaluation': 1.0, 'seconds_waiting': 0.5,
       'seconds_transport': 0.25, 'bytes_moved': 7e6, 'driver_peak_mb': 800.0}


def test_tables_have_medians_and_ratios():
    lines = list(bench_ray.show({'seconds': {'lstm': TIMES}, 'cohorts': [ROW]}))
    assert lines[1].split() == ['lstm', '2.000', '1.000', '4.000', '0.50', '0.25']
    assert lines[-1].split() == ['1,000', '10,000', '3.000', '1.000', '0.500', '0.2500', '7.00', '800']


@pytest.mark.slow
def test_it_runs(monkeypatch):
    pytest.importorskip('ray')
    for name, value in {'MODELS': {'conv': 1}, 'WARM_UP': 1, 'MEASURED': 2, 'FEATURES': 3}.items():
        monkeypatch.setattr(bench_ray, name, value)
    monkeypatch.setattr(bench_rows, 'SIZES', {'conv': (4, 2)})
    monkeypatch.setattr(bench_rows, 'CLIENTS', 2)
    assert all(len(bench_ray.rounds('conv', engine)) == 2 for engine in ('one worker', 'two threads'))
    found = bench_ray.cohort(3, 8)
    assert found['bytes_moved'] > 0 and found['driver_peak_mb'] > 100 and json.dumps(found)
