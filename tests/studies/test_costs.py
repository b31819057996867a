import math

import pytest
import stored_runs
from toys import make_dataset, make_settings

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.methods import registry
from virtual_tf.studies import costs
from virtual_tf.studies.workers import Job


# Clients of 9, 5, 7 and 12 examples have 3 + 2 + 2 + 3 batches of at most 4, so 2.5 on average. 3 rounds of 2 clients
# with 2 epochs each are 3·2·2·2.5 = 30 steps.
@pytest.mark.parametrize('given, kind', [
    ({'method': 'fedavg'}, 'plain'), ({'method': 'fedprox'}, 'plain'), ({}, 'gaussian'),
    ({'private': 'joint'}, 'private'), ({'estimator': 'sample'}, 'sample'),
    ({'private': 'joint', 'estimator': 'sample'}, 'sample')])
def test_an_estimate_is_steps_times_microseconds(given, kind):
    step = {'plain': 240e-6, 'gaussian': 530e-6, 'private': 1_400e-6, 'sample': 2_000e-6}[kind]
    seconds = costs.estimate(make_settings(**given), make_dataset(sizes=(9, 5, 7, 12)))
    assert seconds == pytest.approx(12.0 + 30 * step, rel=1e-12)


def test_what_was_not_measured_is_guessed_from_the_same_network_or_else_an_mlp():
    # 2.5 times a Gaussian step of the LSTM, 25 ms; of an unknown network that of the MLP, 0.53 ms
    for model, step in (('lstm', 2.5 * 25_000e-6), ('nonsense', 2.5 * 530e-6)):
        settings = make_settings(model=model, private='joint', batch_size=4)
        assert costs.estimate(settings, make_dataset()) == pytest.approx(12.0 + 30 * step, rel=1e-12)


def test_every_job_is_checked_and_costed_on_its_own_data(tmp_path):
    def job(clients, size, **given):
        return Job(f'{clients}-{size}', registry.make_settings(
            {'dataset': 'synthetic', 'synthetic_clients': clients, 'synthetic_max_size': size, 'clients_per_round': 4,
             'method': 'fedavg'} | given))

    # At most 50 examples are at most three batches of 20 a client; some clients of the others have hundreds.
    small, large = job(6, 50), job(6, 2000)
    found = costs.estimates([small, large], tmp_path, 'nowhere')
    steps = {each: (found[each] - 12.0) / 240e-6 for each in found}
    assert steps[small] <= 60 * 4 * 20 * 3 < steps[large]
    with pytest.raises(VirtualTfError, match='clients_per_round = 4 is more than the 3 clients'):
        costs.estimates([small, job(3, 50)], tmp_path, 'nowhere')


@pytest.fixture
def two_jobs(tmp_path):
    """Jobs of ten rounds each, of which the first has played eight before."""
    jobs = [Job(name, make_settings(rounds=10)) for name in 'ab']
    stored_runs.write(tmp_path / 'a', jobs[0].settings, [{}] * 8, end=False)
    return jobs


def test_a_cost_is_of_the_rounds_that_are_left(two_jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(costs.data, 'load', lambda data_dir, settings: None)
    monkeypatch.setattr(costs.driver, 'check_fits', lambda settings, dataset: None)
    monkeypatch.setattr(costs, 'estimate', lambda settings, dataset: 100.0)
    # two rounds of ten, and all
    assert list(costs.estimates(two_jobs, tmp_path, 'nowhere').values()) == pytest.approx([20.0, 100.0])


def test_time_left_scales_what_is_done(two_jobs, tmp_path, monkeypatch):
    first, second = two_jobs
    now = [0.0]
    monkeypatch.setattr(costs.time, 'monotonic', lambda: now[0])
    clock = costs.Clock({first: 20.0, second: 100.0}, tmp_path)
    now[0] = 5.0
    assert math.isnan(clock.left(two_jobs, []))
    assert clock.left([second], [first]) == pytest.approx(25.0)       # 20 of 120 took 5 s
    stored_runs.write(tmp_path / 'b', second.settings, [{}] * 5, end=False)
    assert clock.left([second], [first]) == pytest.approx(25.0 / 7)   # 20 + 50 of 120
    assert clock.left([], two_jobs) == 0.0


def test_durations():
    assert [costs.duration(seconds) for seconds in (7, 600, 7200)] == ['7 s', '10 min', '2.0 h']
    assert costs.duration(math.nan) == 'an unknown time'
