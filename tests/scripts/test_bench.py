"""The benchmark compares like with like: the reference has the weights of our networks."""
import types

import numpy as np
import pytest

from scripts import bench, keras_models
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.networks import models


@pytest.mark.parametrize('model', bench.SIZES)
def test_plain_keras_models_have_as_many_weights_as_ours(model):
    dataset = bench.make_dataset(model, clients=1)
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
    monkeypatch.setattr(bench.time, 'perf_counter', lambda: float(next(clock)))
    # Each round takes one tick of a second and has clients · epochs · examples / batch steps.
    row = bench.measure(lambda: None, 'mlp', clients=2, epochs=3, repeats=5)
    assert row == {'median': 1e6 / (2 * 3 * 25), 'min': 1e6 / 150, 'max': 1e6 / 150}


def test_an_output_that_cannot_be_written_is_refused_before_the_measurement(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, 'compare', lambda *_: {'microseconds': {}, 'ratios': {}})
    (tmp_path / 'file').touch()
    values = types.SimpleNamespace(model=['mlp'], epochs=0, repeats=0, scale=False, output=tmp_path / 'new/bench.json')
    monkeypatch.setattr(bench.flags, 'FLAGS', values)
    bench.main(None)
    assert (tmp_path / 'new' / 'bench.json').is_file()
    values.output = tmp_path / 'file/bench.json'
    monkeypatch.delattr(bench, 'compare')
    with pytest.raises(VirtualTfError, match=r'cannot be written .*; choose another output$'):
        bench.main(None)
