"""Models and layers of a user's own that are wrong: one sentence each, which names model and layer."""
import dataclasses
import re

import pytest
import tensorflow as tf
from toys import make_dataset, make_settings

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.methods import registry
from virtual_tf.networks import dry_pass, layers, models

SHAPE, CLASSES = (5,), 3
DENSE = layers.Dense(CLASSES)


@dataclasses.dataclass(frozen=True)
class Odd(layers.Layer):
    """A dense layer of 5 units, but for what it is given."""
    shapes: object = dataclasses.field(default_factory=lambda: {'kernel': (5, 5)})
    output: object = SHAPE
    compute: object = lambda weights, x, stream: x @ layers.draw(weights['kernel'], stream)
    initial: object = None

    def weight_shapes(self, input_shape):
        return self.shapes

    def output_shape(self, input_shape):
        return self.output

    def linear(self, weights, x, stream=None):
        return self.compute(weights, x, stream)

    def initial_mean(self, name, shape, normal, mean_init, mean_scale):
        return normal(shape) if self.initial is None else self.initial


@pytest.fixture
def build(monkeypatch):
    """Builds the model 'mine' of these layers, or of what a function gives."""
    monkeypatch.setattr(models, 'MODELS', dict(models.MODELS))

    def of(found, **options):
        models.MODELS['mine'] = found if callable(found) else lambda input_shape, num_classes, **options: found
        return models.build('mine', SHAPE, CLASSES, **options)
    return of


def refused(build, found, sentence, **options):
    with pytest.raises(VirtualTfError, match=sentence) as error:
        build(found, **options)
    message = str(error.value)
    assert '\n' not in message and "model 'mine'" in message and ('; ' in message)


@pytest.mark.parametrize('layer, sentence', [
    # two clients with three examples, which have 5 features
    (Odd(output=(7,)), r"linear of layer 'odd_1' of model 'mine' gives the shape \[2, 3, 5\] where output_shape says "
                       r'\[2, 3, 7\], clients and examples first'),
    (Odd(compute=lambda weights, x, stream: tf.transpose(x, [1, 0, 2])), r'gives the shape \[3, 2, 5\] where'),
    (Odd(compute=lambda weights, x, stream: None), "linear of layer 'odd_1' .* gives None where"),
    (Odd(compute=lambda weights, x, stream: x @ tf.zeros([2, 4, 5])),
     rf"linear of layer 'odd_1' of model 'mine' raised an error \({re.escape(__file__)}, line \d+: ValueError: Dim"),
    (Odd(compute=lambda weights, x, stream: x + stream.normal((1, 5))), "raised an error .*'NoneType' object has no"),
    (Odd(activation=lambda x: tf.reduce_sum(x, axis=-1)), r"activation of layer 'odd_1'.*\[2, 3\] where its input has"),
    (Odd(shapes=None), r"weight_shapes of layer 'odd_1' of model 'mine' gives None; it must give a dict"),
    (Odd(shapes={'kernel': 5}), r"gives \{'kernel': 5\}; it must give a dict"),
    (Odd(shapes={'a/b': (5, 5)}), r"gives \{'a/b': \(5, 5\)\}; it must give a dict"),
    (Odd(output=None), r"output_shape of layer 'odd_1' of model 'mine' gives None for an input of shape \(5,\)"),
    (Odd(output=(0,)), r"gives \(0,\) for an input"),
    (Odd(initial=tf.zeros([5, 5])), r"initial_mean of 'kernel' of layer 'odd_1'.*shape \[5, 5\] where.*\[2, 5, 5\]")])
def test_a_layer_that_does_not_what_it_says_is_named(build, layer, sentence):
    refused(build, (layer, DENSE), sentence)


def test_a_layer_is_named_by_its_place(build):
    refused(build, (layers.Dense(4), layers.Dense(6), layers.MaxPool(), DENSE), "layer 'maxpool_1' of model 'mine'")
    refused(build, (layers.Dense(5), Odd(), Odd(output=(9,)), DENSE), "layer 'odd_2' of model 'mine'")


def test_a_layer_that_cannot_take_gaussians_is_refused_where_weights_are_gaussian(build):
    plain = Odd(compute=lambda weights, x, stream: x @ weights['kernel'])
    assert build((plain, DENSE)).shapes() == {'odd_1/kernel': (5, 5), 'dense_1/kernel': (5, 3)}
    refused(build, (plain, DENSE), "linear of layer 'odd_1' of model 'mine' raised an error", gaussian=True)


@pytest.mark.parametrize('found, options, sentence', [
    (None, {}, "the function of model 'mine' gives None where layers belong; let it return a tuple"),
    ((), {}, r'gives \(\) where layers belong'),
    (DENSE, {}, r'gives Dense\(.* where layers belong'),
    ((DENSE, 'relu'), {}, "gives 'relu' where layers belong"),
    (lambda input_shape, num_classes: (DENSE,), {'use_bias': False},
     r"unexpected keyword argument 'use_bias'\); let it take \(input_shape, num_classes, \*\*options\)"),
    (lambda input_shape, **options: (DENSE,), {}, r'too many positional arguments\); let it take'),
    (lambda input_shape, num_classes, **options: input_shape[3], {},
     rf"function of model 'mine' raised an error \({re.escape(__file__)}, line \d+: IndexError: tuple index")])
def test_a_function_that_gives_no_layers_is_refused(build, found, options, sentence):
    refused(build, found if callable(found) and not isinstance(found, layers.Layer) else lambda *_, **__: found,
            sentence, **options)


def test_a_list_of_layers_is_as_good_as_a_tuple(build):
    assert build([layers.Flatten(), DENSE]).shapes() == {'dense_1/kernel': (5, 3)}


@pytest.mark.parametrize('units', [1, 2, 7])
def test_an_output_of_another_number_of_classes_is_refused(build, units):
    refused(build, (DENSE, layers.Dense(units)), rf"layer 'dense_2' of model 'mine' is the last and gives \[{units}\] "
            r'for an example, where this data needs \[3\]; give it num_classes units')


def test_an_output_at_every_position_is_refused_for_one_label_and_wanted_for_a_sequence():
    network = models.build('lstm', (6,), CLASSES, target_shape=(6,))
    dry_pass.check('lstm', network, CLASSES)
    with pytest.raises(VirtualTfError, match=r"layer 'dense_1' of model 'lstm' .* gives \[6, 3\] .* needs \[3\]"):
        dry_pass.check('lstm', network, CLASSES, target_shape=())


def test_a_run_is_refused_before_it_is_built(build):
    """What registry.build asks of a method's weights and of the data's targets."""
    dataset = make_dataset()
    models.MODELS['mine'] = lambda input_shape, num_classes, **options: (layers.Dense(num_classes + 1, **options),)
    for method in ('virtual', 'fedavg'):
        with pytest.raises(VirtualTfError, match=r'gives \[3\] .* needs \[2\]'):
            registry.build(make_settings(method=method, model='mine'), dataset)
    models.MODELS['mine'] = lambda *_, **__: (Odd({'kernel': (3, 3)}, (3,), lambda weights, x, stream: x
                                              @ weights['kernel']), layers.Dense(2))
    registry.build(make_settings(method='fedavg', model='mine'), dataset)
    with pytest.raises(VirtualTfError, match="linear of layer 'odd_1'"):
        registry.build(make_settings(model='mine'), dataset)
