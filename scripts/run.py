"""Runs federated methods on a data set and compares them.

    python -m scripts.run --method=virtual,fedavg,fedprox --dataset=watch --rounds=60
"""
import dataclasses
import pathlib

from absl import flags

from scripts import entry
from virtual_tf import data, experiments, plots
from virtual_tf.algorithms import ALGORITHMS
from virtual_tf.settings import Settings, make_settings

_DEFINE = {str: flags.DEFINE_string, int: flags.DEFINE_integer, float: flags.DEFINE_float, bool: flags.DEFINE_bool}
_LISTS = ('method', 'private')


def define_flags():
    """A flag for every setting; lists for what one command compares."""
    flags.DEFINE_list('method', ['virtual'], f'methods to run, of {", ".join(ALGORITHMS)}')
    flags.DEFINE_list('private', None, 'private weights φ_i of virtual: none, joint (the paper), residual; several run '
                      'one after the other')
    flags.DEFINE_bool('private_baselines', False, 'give the baselines the private path too')
    flags.DEFINE_string('data_dir', '~/.cache/virtual_tf', 'root with one folder of raw files a data set')
    flags.DEFINE_string('output_dir', 'runs', 'root of the folders, one a method and variant, that this run writes')
    for field in dataclasses.fields(Settings):
        if field.name not in _LISTS:
            kind = field.type if isinstance(field.type, type) else eval(field.type)
            choices = f' ({", ".join(field.metadata["choices"])})' if field.metadata['choices'] else ''
            _DEFINE[kind](field.name, None, f'{field.metadata["help"]}{choices} [{field.default}]')


def settings_of_flags(values):
    """The Settings of each run that the flags ask for."""
    given = {field.name: getattr(values, field.name) for field in dataclasses.fields(Settings)
             if field.name not in _LISTS and getattr(values, field.name) is not None}
    runs = []
    for method in values.method:
        private = values.private if values.private and (method == 'virtual' or values.private_baselines) else [None]
        for choice in private:
            runs.append(make_settings(given | {'method': method} | ({'private': choice} if choice else {})))
    for settings in runs:
        experiments.check_names(settings)
    return runs


def table(summaries):
    """S and MT accuracy and cross-entropy of each run, at the end and at best."""
    lines = [f'{"":18}{"last 5 rounds":^38}{"best round (paper)":^20}',
             f'{"method":18}{"S acc %":>9}{"MT acc %":>10}{"S xent":>9}{"MT xent":>9} {"S acc %":>10}{"MT acc %":>10}']
    for name, summary in summaries.items():
        late, best = summary['last_5'], summary['max']
        lines.append(f'{name:18}{100 * late["server/accuracy"]:9.2f}{100 * late["mt/accuracy"]:10.2f}'
                     f'{late["server/cross_entropy"]:9.4f}{late["mt/cross_entropy"]:9.4f} '
                     f'{100 * best["server/accuracy"]:10.2f}{100 * best["mt/accuracy"]:10.2f}')
    return '\n'.join(lines)


def main(_):
    values = flags.FLAGS
    runs = settings_of_flags(values)
    dataset = data.load(values.data_dir, runs[0])
    for settings in runs:
        experiments.check_fits(settings, dataset)
    root = pathlib.Path(values.output_dir).expanduser()
    summaries, histories = {}, {}
    for settings in runs:
        name = settings.variant()
        summaries[name], histories[name] = experiments.run(settings, dataset, root / name)
    picture = root / 'learning_curves.png'
    plots.learning_curves(histories, picture, experiments.title(runs[0]))
    print(f'\n{dataset.name}: {len(dataset.clients)} clients, {runs[0].rounds} rounds, seed {runs[0].seed}'
          + (f' ({dataset.caveat})' if dataset.caveat else ''))
    print(table(summaries))
    print(f'\nlearning curves: {picture}\nlook inside:     tensorboard --logdir {root}')


if __name__ == '__main__':
    define_flags()
    entry.run(main)
