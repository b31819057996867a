"""Methods by name: a record says all that the rest of the project needs to know of one.

Flags, tables, pictures, sweeps and Flower read these records; none of them asks for a method by name.
"""
import dataclasses
from collections.abc import Callable
from typing import NamedTuple

from virtual_tf.core.errors import VirtualTfError, unknown
from virtual_tf.core.settings import COMMON, Settings
from virtual_tf.networks import models

METHODS = {}
# The paper trains text in batches of 10; small initial weights, which suit an MLP, leave an LSTM's gates undecided.
OF_MODEL = {'lstm': {'batch_size': 10, 'mean_init': 'glorot', 'client_lr': 1.0}}
# What suits the scale of the inputs, for every method (docs/lab-notes.md has the runs).
OF_DATASET = {'mnist': {'client_lr': 0.2}, 'pmnist': {'client_lr': 0.2}, 'writers': {'client_lr': 0.2},
              'femnist': {'standardize': 'center', 'client_lr': 0.2}, 'har': {'client_lr': 0.05},
              'hapt': {'client_lr': 0.02}, 'vsn': {'max_gradient_norm': 1.0}, 'shakespeare': {'model': 'lstm'}}
# The same with features as published: FEMNIST's background is 1, and then steps have to be short.
OF_PUBLISHED = {'femnist': {'standardize': 'none', 'client_lr': 0.05, 'max_gradient_norm': 5.0}}
AS_PUBLISHED = ('paper', 'authors')     # presets under which every method has them so


class Sweep(NamedTuple):
    """What is varied beside the client's rate when a method's values are chosen."""
    axis: str                     # a setting,
    values: tuple                 # and its values
    server_lr: tuple              # multiples of the usual server_lr, on a line through the grid's best point
    small_axis: str = ''          # in place of both where runs are slow
    small_values: tuple = ()


@dataclasses.dataclass(frozen=True)
class Method:
    """A federated method, as --method takes it."""
    name: str
    make: Callable                # (gated.Network, Settings) → interface.Algorithm
    label: str                    # in tables and pictures
    settings: dict = dataclasses.field(default_factory=dict)      # {name: Setting} that are its own
    defaults: dict = dataclasses.field(default_factory=dict)      # its own defaults of common settings
    presets: dict = dataclasses.field(default_factory=dict)       # {preset: {setting: value}}
    complete: Callable = lambda values: values                    # fills in values that follow from others
    check: Callable = lambda settings: None                       # raises where settings do not go together
    looks: dict = dataclasses.field(default_factory=dict)         # {label: (colour, dashes)}, its variants' too
    gaussian: bool = False        # its weights are tfd.Normals
    natural_deltas: bool = False  # its deltas are natural parameters of the server's weights: can be summed securely
    learns_server: bool = True    # rounds change what S tests; without an S, sweeps go by MT and tables have a dash
    sweep: Sweep | None = None
    reference: bool = False       # comparisons show what others differ from it by

    def declared(self):
        """{name: Setting} of everything that a run of this method has."""
        return {name: dataclasses.replace(setting, default=self.defaults.get(name, setting.default))
                for name, setting in (COMMON | self.settings).items()}


def register(method):
    """Makes a Method a value of --method, and its settings flags."""
    if method.name in METHODS:
        raise VirtualTfError(f'method {method.name!r} is there already; register yours under another name')
    for name, setting in method.settings.items():
        try:
            setting.checked(name, setting.default)
        except TypeError:
            raise VirtualTfError(f'setting {name!r} of method {method.name!r} has the default {setting.default!r}, '
                                 'which its bounds cannot be held against; give a number') from None
        if name in COMMON:
            raise VirtualTfError(f'setting {name!r} of method {method.name!r} is one that every method has; give its '
                                 'value in `defaults`, or use another name')
        known = own_settings().get(name)
        if known and known.type is not setting.type:
            raise VirtualTfError(f'setting {name!r} of method {method.name!r} is of type {setting.type.__name__}, '
                                 f'another method has it with {known.type.__name__}; use another name')
    METHODS[method.name] = method
    return method


def find(name):
    """The record of a registered method."""
    if name not in METHODS:
        raise unknown('method', name, METHODS)
    return METHODS[name]


def own_settings():
    """{name: Setting} of all that belongs to some method; the first one's where several share a name."""
    return {name: setting for method in reversed(METHODS.values()) for name, setting in method.settings.items()}


def owners(setting):
    """Names of the methods that have a setting: all for a common one."""
    return [name for name, method in METHODS.items() if setting in COMMON or setting in method.settings]


def presets():
    """Names that --preset takes."""
    return tuple(dict.fromkeys(name for method in METHODS.values() for name in ('ours', *method.presets)))


def looks():
    """{label: (colour, dashes)}: a method has one look in all pictures."""
    return {label: look for method in METHODS.values() for label, look in method.looks.items()}


def make_settings(given):
    """Settings from what the user has set: {name: value}; the rest comes from method, data, model and preset."""
    method = find(COMMON['method'].checked('method', given.get('method', COMMON['method'].default)))
    preset = given.get('preset', 'ours')
    if preset not in presets():
        raise unknown('preset', preset, presets())
    declared = method.declared()
    for name in given:
        if name not in declared and name in own_settings():
            raise VirtualTfError(f'{name} is a setting of {", ".join(owners(name))}, not of {method.name}; leave it '
                                 'out')
    dataset, of_preset = given.get('dataset', declared['dataset'].default), method.presets.get(preset, {})
    of_dataset = OF_DATASET.get(dataset, {})
    if given.get('standardize', 'none' if preset in AS_PUBLISHED else None) == 'none':
        of_dataset = of_dataset | OF_PUBLISHED.get(dataset, {})
    # The model has usual values of its own, so which one it is comes first.
    model = ({'model': declared['model'].default} | of_dataset | given)['model']
    return checked(Settings(method.complete(of_dataset | OF_MODEL.get(model, {}) | of_preset | given), declared))


def checked(settings):
    """The Settings, or their method's error if some of them do not go together."""
    find(settings.method).check(settings)
    return settings


def read_settings(stored):
    """The Settings of a stored record, {name: value}; what it lacks is as it was, what is no setting is left out."""
    declared = find(stored['method']).declared()
    return Settings({name: stored.get(name, setting.of_old) for name, setting in declared.items()}, declared)


def applicable(method, given):
    """What of {name: value} a method has settings for, or nobody has: the latter is for make_settings to refuse."""
    own, others = find(method).settings, own_settings()
    return {name: value for name, value in given.items() if name in own or name not in others}


def with_compiler(settings):
    """The settings with what compile=auto stands for."""
    if settings.compile != 'auto':
        return settings
    return settings.replace(compile=models.FASTER_COMPILER.get(settings.model, 'graph'))


def build(settings, dataset):
    """(network, algorithm, settings with the compiler chosen) for examples like those of the data set."""
    settings = with_compiler(settings)
    method = find(settings.method)
    network = models.build(settings.model, dataset.input_shape, dataset.num_classes, dataset.train.y.shape[1:],
                           method.gaussian, use_bias=settings.use_bias, estimator=settings.get('estimator', 'local'))
    return network, method.make(network, settings), settings
