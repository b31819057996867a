"""VIRTUAL: variational federated multi-task learning (Corinzia, Beuret, Buhmann) on TensorFlow Probability.

    import virtual_tf as vt

    settings = vt.make_settings(method='virtual', dataset='watch', rounds=3)
    dataset = vt.load_data(settings)
    summary, history = vt.run(settings, dataset, 'runs/first')

make_settings(**given)                  Settings; the rest are defaults of method, data, model and preset
load_data(settings, data_dir=…)         the federated data set that they name
run(settings, dataset, folder)          plays what the folder does not hold yet: (summary, metrics of each round)
open_run(folder)                        a run to use: settings, history, the models of server and clients
read_run(folder)                        a finished run: settings, metrics by name as arrays, data
register_model, register_method, register_metric, Method, Setting, Metric
                                        for models, methods and metrics of your own (docs/extending.md)
gaussian, layers, interface             the Gaussian algebra (App. B), the layers of models, what a method is
load_plugin(path)                       runs a file that registers
VirtualTfError                          what a user can put right, in one sentence

Nothing heavy is imported before it is used.
"""
import importlib

_EXPORTS = {
    'make_settings': ('api', 'make_settings'), 'load_data': ('api', 'load_data'), 'read_run': ('api', 'read_run'),
    'open_run': ('runs.opened', 'open_run'), 'run': ('runs.driver', 'run'),
    'register_model': ('networks.models', 'register'), 'register_method': ('methods.registry', 'register'),
    'register_metric': ('simulator.metrics', 'register'),
    'Method': ('methods.registry', 'Method'), 'Metric': ('simulator.metrics', 'Metric'),
    'Setting': ('core.settings', 'Setting'), 'VirtualTfError': ('core.errors', 'VirtualTfError'),
    'load_plugin': ('core.plugins', 'load'), 'gaussian': ('methods.virtual.gaussian', None),
    'layers': ('networks.layers', None), 'interface': ('methods.interface', None)}
_LIGHT = ('core.errors', 'core.settings', 'core.plugins')
__all__ = list(_EXPORTS)


def __getattr__(name):
    if name not in _EXPORTS:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}; it has {", ".join(_EXPORTS)}')
    module, attribute = _EXPORTS[name]
    if module not in _LIGHT:
        importlib.import_module('virtual_tf.core.quiet').import_tensorflow()
    found = importlib.import_module(f'virtual_tf.{module}')
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__():
    return [*globals(), *_EXPORTS]
