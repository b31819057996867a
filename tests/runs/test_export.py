import pathlib
import subprocess
import sys

import numpy as np
import pytest
import small_runs
import tensorflow as tf
from load_exports import SAMPLES, SEED

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.networks import layers, models
from virtual_tf.networks.models import MODELS
from virtual_tf.runs import export

LOADER = pathlib.Path(__file__).with_name('load_exports.py')


def round_trip(folder, cases):
    """Exports models, loads them in a process without this package, and compares; cases: (model, method, which)."""
    expected = {}
    for model, method, which in cases:
        x = small_runs.make_data(model).test.x
        np.save(folder / f'{model}.npy', x)
        made = small_runs.fresh_models(model, method, use_bias=model == 'mlp')[which]
        name, mean = f'{model}-{method}-{which}', made.predict(x).probabilities
        sampled = made.predict(x, samples=SAMPLES, seed=SEED)._asdict()
        expected[export.export(made, folder / f'{name}.savedmodel').name] = {'mean': mean, 'alone': mean[:1]} | sampled
        expected[export.export(made, folder / name, 'tflite').name] = {'probabilities': mean}
        expected[export.export(made, folder / name, 'keras').name] = {'mean': mean}
        if method == 'virtual':
            ensemble = export.export(made, folder / f'{name}-draws', 'tflite', SAMPLES, SEED)
            expected[ensemble.name] = sampled
    done = subprocess.run([sys.executable, LOADER, folder], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    for file, values in expected.items():
        with np.load(folder / f'{file}.npz') as found:
            assert {*found.files} == {*values}, file
            for name, value in values.items():
                np.testing.assert_allclose(found[name], value, atol=1e-4 if file.endswith('tflite') else 1e-5,
                                           err_msg=f'{file} {name}')


def test_a_client_with_a_private_path_comes_back_from_every_format_without_this_package(tmp_path):
    round_trip(tmp_path, [('mlp', 'virtual', 1), ('conv', 'fedavg', 1), ('lstm', 'fedavg', 1)])


@pytest.mark.slow
def test_server_and_client_of_every_network_gaussian_and_plain_come_back_from_every_format(tmp_path):
    round_trip(tmp_path, [(model, method, which) for model in small_runs.SHAPES for method in ('virtual', 'fedavg')
                          for which in (0, 1)])


@pytest.fixture(scope='module')
def plain():
    return small_runs.fresh_models('mlp', 'fedavg')[0]


def test_what_cannot_be_written_is_one_sentence(plain, tmp_path):
    with pytest.raises(VirtualTfError, match="format 'onnx' is unknown; known are keras, savedmodel, tflite"):
        plain.export(tmp_path / 'model', 'onnx')
    with pytest.raises(VirtualTfError, match='the weights of fedavg are numbers'):
        plain.export(tmp_path / 'model', 'tflite', draws=3)
    (tmp_path / 'model.keras').touch()
    with pytest.raises(VirtualTfError, match=r'model\.keras is there already; remove it'):
        plain.export(tmp_path / 'model', 'keras')


class Scaled(layers.Layer):
    def linear(self, weights, x, stream=None):
        return tf.math.bessel_i0e(x)


class Fixed(layers.Layer):
    def linear(self, weights, x, stream=None):
        return tf.reshape(tf.reshape(x, [-1]), [*x.shape])


@pytest.fixture
def fixed():
    """A server whose model has a layer that has to know the number of examples."""
    @models.register('fixed')
    def fixed(input_shape, num_classes, **options):
        return Fixed(), layers.Dense(num_classes, **options)
    yield small_runs.fresh_models_of('fixed', 'mlp', 'fedavg')[0]
    del MODELS['fixed']


def test_a_layer_that_has_to_know_the_number_of_examples_predicts_and_is_not_exported(fixed, tmp_path):
    x = small_runs.make_data('mlp').test.x
    logits = x @ fixed.weights['dense_1/kernel']
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for count in (2, 5):
        np.testing.assert_allclose(fixed.predict(x[:count]).probabilities, expected[:count], atol=1e-6)
    with pytest.raises(VirtualTfError, match="a layer of model 'fixed' does not take any number of examples"):
        fixed.export(tmp_path / 'f')


@pytest.fixture
def strange():
    """A server whose model has a layer that only TensorFlow itself has."""
    @models.register('strange')
    def strange(input_shape, num_classes, **options):
        return Scaled(), layers.Dense(num_classes, **options)
    yield lambda: small_runs.fresh_models_of('strange', 'mlp', 'fedavg')[0]
    del MODELS['strange']


def test_a_format_that_cannot_hold_a_network_says_which_operation_and_what_can(strange, tmp_path):
    model = strange()
    with pytest.raises(VirtualTfError, match="layer 'scaled_1' of model 'strange' is a Scaled, which Keras does not "):
        model.export(tmp_path / 'k', 'keras')
    with pytest.raises(VirtualTfError, match=r'TensorFlow Lite has no BesselI0e, which model .strange. needs; --fo'):
        model.export(tmp_path / 't', 'tflite')
    path = model.export(tmp_path / 's')
    x = small_runs.make_data('mlp').test.x
    loaded = tf.saved_model.load(str(path)).signatures['predict'](x=tf.constant(x))
    np.testing.assert_allclose(loaded['probabilities'], model.predict(x).probabilities, atol=1e-6)
