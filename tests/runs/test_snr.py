import numpy as np
import pytest
import tensorflow as tf
from toys import make_dataset, make_settings, play

from virtual_tf.runs import driver, snr

SMALL = {'dataset': 'watch', 'rounds': 1, 'epochs': 1, 'clients_per_round': 2, 'checkpoint_every': 0}


def test_counts_below_the_grid_by_hand():
    counts = snr.count_below(np.array([[0.0, 0.5], [1.0, 1e9]], np.float32))
    at = dict(zip(snr.GRID, counts))
    # Below SNR 1 (log10 = 0) lie 0 and 0.5, not 1 itself; beyond the grid's end only the total counts.
    assert at[0.0] == 2 and at[-6.0] == 1 and at[0.01] == 3 and at[4.0] == 3 and counts[-1] == 4
    assert len(counts) == len(snr.GRID) + 1


def test_the_measure_is_over_the_trained_clients_and_each_layer():
    simulation, state, _ = play(make_settings(rounds=2, clients_per_round=1), make_dataset())
    counts = snr.measure(simulation, state)
    trained = [i for i in range(4) if i in state.clients]
    q = state.clients.read(trained).deployed
    assert set(counts) == {'dense_1', 'dense_2'}
    for name, (mean, scale) in q.items():
        values = np.abs(mean) / scale
        layer = counts[name.split('/')[0]]
        assert layer[-1] == values.size and layer[snr.GRID.tolist().index(0.0)] == np.sum(values < 1)


def test_baselines_have_no_distribution():
    simulation, state, _ = play(make_settings(method='fedavg', server_lr=1.0, rounds=1), make_dataset())
    assert snr.measure(simulation, state) == {}


def test_a_run_leaves_counts_picture_and_image(tmp_path):
    settings = make_settings(**SMALL)
    simulation_data = make_dataset()
    driver.run(settings, simulation_data, tmp_path / 'a', progress=False)
    counts = snr.load([tmp_path / 'a'])
    assert set(counts) == {'dense_1', 'dense_2', 'dense_3'}
    assert (tmp_path / 'a' / snr.PICTURE).stat().st_size > 1000
    tags = {value.tag for path in (tmp_path / 'a').glob('events.out.tfevents.*')
            for event in tf.compat.v1.train.summary_iterator(str(path)) for value in event.summary.value}
    assert 'clients/snr_cdf' in tags
    # The counts of two runs add up.
    assert np.array_equal(snr.load([tmp_path / 'a'] * 2)['dense_1'], 2 * counts['dense_1'])


def test_shares_and_the_text_that_reads_them():
    def counts(below, total):
        return np.append(np.where(snr.GRID < 0, 0, below), total)

    first = {'dense_1': counts(90, 100), 'dense_2': counts(0, 100)}
    second = {'dense_1': counts(50, 100), 'dense_2': counts(10, 100)}
    assert snr.shares(first)['dense_1'][-1] == pytest.approx(0.9)
    text = snr.read_out({'one': first, 'two': second})
    # (90 + 0)/200 and (50 + 10)/200
    assert 'one: 45.0 % of the weights have an SNR below 1 (dense_1 90.0 %, dense_2 0.0 %)' in text
    assert 'More compressible is one, by 15.0 points of that share over two.' in text
