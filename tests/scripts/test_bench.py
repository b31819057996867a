"""The benchmark compares like with like: the reference has the weights of our networks."""
import json
import types

import numpy as np
import pytest
import tensorflow as tf

from scripts import bench, bench_rivals, bench_rows, keras_models
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.methods import registry
from virtual_tf.networks import models
from virtual_tf.studies import rivals


@pytest.mark.parametrize('model', bench_rows.SIZES)
def test_plain_keras_models_have_as_many_weights_as_ours(model):
    dataset = bench_rows.make_dataset(model, clients=1)
    keras = keras_models.make(model, dataset.num_classes, False, 1)
    keras.build((None, *dataset.input_shape))
    ours = models.build(model, dataset.input_shape, dataset.num_classes).shapes()
    assert keras.count_params() == sum(np.prod(shape) for shape in ours.values())


def test_tfp_models_have_a_mean_and_a_scale_for_each():
    keras = keras_models.make('mlp', 10, True, 1)
    keras.build((None, 28, 28, 1))
    assert keras.count_params() == 2 * (784 * 100 + 100 * 100 + 100 * 10)


def test_times_are_per_client_step(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(bench_rows.time, 'perf_counter', lambda: float(next(clock)))
    # Each round takes one tick of a second and has clients · epochs · examples / batch steps.
    times = bench_rows.measure(lambda: None, 'mlp', clients=2, epochs=3, repeats=5)
    assert bench_rows.summary(times) == {'median': 1e6 / (2 * 3 * 25), 'min': 1e6 / 150, 'max': 1e6 / 150}


def test_ratios_are_of_what_was_measured_alone():
    rows = {name: {'all cores': {'median': 6.0}, 'one core': {'median': 9.0}}
            for name in bench.rows_of('lstm')}
    rows['VIRTUAL, groups']['all cores']['median'] = 2.0
    found = bench.ratios(rows)
    assert found['VIRTUAL: one call / groups'] == 3.0 and found['FedAvg: one call / groups'] == 1.0
    assert found['VIRTUAL: one core / all cores'] == 4.5 and found['VIRTUAL / FedAvg'] == 1 / 3
    assert not [name for name in found if 'JAX' in name or 'TFP' in name or 'matmuls' in name]


@pytest.mark.parametrize('column', rivals.COLUMNS)
def test_a_step_of_a_rival_is_the_plain_one_and_a_round_is_the_study_s(column):
    step, whole = (registry.make_settings(row) for row in bench_rivals.rows_of(column).values())
    assert (step.max_gradient_norm, step.backtracking) == (0.0, False)
    assert (step.get('private', 'none'), step.get('fine_tune', 0)) == ('none', 0)
    assert (step.get('mt_model', 'trained'), step.get('precision_update', 'sgd')) == ('trained', 'sgd')
    tuned = {'fine_tune': 20} if rivals.COLUMNS[column].tuned else {}
    asked = registry.make_settings(rivals.COLUMNS[column].given | tuned)
    assert whole.replace(client_lr=asked.client_lr) == asked and step.method == asked.method


def test_a_step_is_held_against_its_definition():
    def measure(row):
        medians = {'fedavg': 100.0, 'ditto': 240.0, 'pfedme': 380.0, 'virtual': 300.0, 'pfedbayes': 450.0}
        return {'median': medians.get(row['method'], 300.0 if 'min_scale' in registry.find(row['method']).settings
                                      else 100.0) * (2 if row['epochs'] == 20 else 1)}
    found = bench_rivals.compare(measure, epochs=5, repeats=1)
    assert {*found['microseconds']['step']} == {*found['microseconds']['round']} == {*rivals.COLUMNS}
    assert found['microseconds']['round']['ditto'] == {'median': 480.0}
    # 2.4 and 1.5 of 2 and 3.8 of 5 are within a quarter, 3.7 of 5 is not.
    assert found['definitions']['ditto'] == {'of': 'fedavg', 'times': 2, 'measured': 2.4, 'holds': True}
    assert found['definitions']['pfedbayes'] == {'of': 'virtual', 'times': 2, 'measured': 1.5, 'holds': True}
    assert found['definitions']['pfedme'] == {'of': 'fedavg', 'times': 5, 'measured': 3.8, 'holds': True}
    assert all(one['holds'] for one in found['definitions'].values())
    assert not bench_rivals.held({'pfedme': 370.0, 'fedavg': 100.0}, 'pfedme', 'fedavg', 5)['holds']


def test_what_the_file_has_of_other_networks_stays(tmp_path, monkeypatch):
    (tmp_path / 'bench.json').write_text('{"conv": 1, "mlp": 2}')
    monkeypatch.setattr(bench, 'compare', lambda *_: {'microseconds': {}, 'ratios': {}})
    monkeypatch.setattr(bench.flags, 'FLAGS', types.SimpleNamespace(
        model=['mlp'], epochs=0, repeats=0, scale=False, rivals=False, output=tmp_path / 'bench.json'))
    bench.main(None)
    written = json.loads((tmp_path / 'bench.json').read_text())
    assert written['conv'] == 1 and written['mlp'] == {'microseconds': {}, 'ratios': {}}


@pytest.mark.parametrize('method', ['fedavg', 'virtual'])
def test_the_twin_in_jax_takes_the_same_step(method):
    """One step of one client from the same weights; VIRTUAL's with σ so small that the noise is nothing."""
    bench_jax = pytest.importorskip('scripts.bench_jax')
    generator = np.random.default_rng(0)
    kernels = [generator.normal(size=shape).astype(np.float32) / 4 for shape in ((5, 4), (4, 3))]
    x, y = generator.normal(size=(6, 5)).astype(np.float32), generator.integers(0, 3, 6)
    import jax
    key = jax.random.key(0)
    plain = bench_jax.fedavg_step(kernels, x, y, key, None, 6)
    with tf.GradientTape() as tape:
        weights = [tf.Variable(kernel) for kernel in kernels]
        logits = tf.nn.relu(x @ weights[0]) @ weights[1]
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
    for kernel, gradient, moved in zip(kernels, tape.gradient(loss, weights), plain):
        np.testing.assert_allclose(moved, kernel - bench_jax.RATE * gradient, rtol=1e-4, atol=1e-6)
    if method == 'virtual':
        beliefs = [(kernel, np.full_like(kernel, 1e-9)) for kernel in kernels]
        # A flat prior has no pull.
        target = [(np.zeros_like(kernel), np.zeros_like(kernel)) for kernel in kernels]
        means = [mean for mean, _ in bench_jax.virtual_step(beliefs, x, y, key, target, 6)]
        for a, b in zip(means, plain):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_an_output_that_cannot_be_written_is_refused_before_the_measurement(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, 'compare', lambda *_: {'microseconds': {}, 'ratios': {}})
    (tmp_path / 'file').touch()
    values = types.SimpleNamespace(model=['mlp'], epochs=0, repeats=0, scale=False, rivals=False,
                                   output=tmp_path / 'new/bench.json')
    monkeypatch.setattr(bench.flags, 'FLAGS', values)
    bench.main(None)
    assert (tmp_path / 'new' / 'bench.json').is_file()
    values.output = tmp_path / 'file/bench.json'
    monkeypatch.delattr(bench, 'compare')
    with pytest.raises(VirtualTfError, match=r'cannot be written .*; choose another output$'):
        bench.main(None)
