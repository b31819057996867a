"""The paper's Table 1 beside what is loaded here: clients and sizes."""
import numpy as np

from virtual_tf import data
from virtual_tf.data.federated import DataError
from virtual_tf.methods import registry
from virtual_tf.studies import paper

# Where ours differs from the paper's row for reasons that are not in the files' own caveat.
NOTES = {
    'femnist': 'about 100 training digits a writer in the published files, against 550 in the paper',
    'writers': 'not in the paper: the closest real thing to its handwriting data that is small',
    'vsn': 'the paper has 68k examples of 23 sensors',
    'har': '6 activities and 10,299 windows in all, against 12 and 15k in the paper',
    'hapt': '12 activities as in the paper, 10,929 windows as UCI publishes them, against 15k',
    'shakespeare': 'sizes are characters',
    'watch': 'not in the paper: comes with this package',
    'synthetic': 'not in the paper: generated from the seed',
}
HEAD = (f'{"":14}{"paper":^32}{"here, train":^34}{"here, train + test":^32}\n'
        f'{"data set":14}{"K":>5}{"size":>11}{"mean":>8}{"std":>8}{"K":>7}{"size":>11}{"mean":>8}{"std":>8}'
        f'{"size":>14}{"mean":>9}{"std":>9}')


def load(data_dir, names=None, **given):
    """({name: FederatedDataset}, {name: why it could not be loaded})"""
    datasets, missing = {}, {}
    for name in names or data.LOADERS:
        data.loader(name)
        try:
            datasets[name] = data.load(data_dir, registry.make_settings({'dataset': name} | given))
        except DataError as error:
            missing[name] = str(error)
    return datasets, missing


def sizes(split):
    """Size of each client [K]: examples, or characters, of which a sequence has one more than targets."""
    return split.targets() + (split.sizes() if split.y.ndim > 1 else 0)


def line(name, dataset):
    """A line below HEAD."""
    published = paper.TABLE_1.get(name)
    cells = (f'{published[0]:5}{published[1]:11,}{published[2]:8,}{published[3]:8,}' if published
             else f'{"–":>5}{"–":>11}{"–":>8}{"–":>8}')
    train = sizes(dataset.train)
    both = train + sizes(dataset.test)
    return (f'{name:14}{cells}{len(train):7}{train.sum():11,}{train.mean():8,.0f}{np.std(train):8,.0f}'
            f'{both.sum():14,}{both.mean():9,.0f}{np.std(both):9,.0f}')


def remarks(name, dataset):
    """What a reader of the line has to know; '' if nothing."""
    return '; '.join(remark for remark in (dataset.caveat, NOTES.get(name)) if remark)


def table_of_data(found, missing):
    """([(header, rows)], notes in Markdown) of Table 1, from what `load` has found."""
    header = ('data', 'K', 'paper', 'training data', 'paper', 'a client', 'paper', 'std', 'paper', 'test data')
    rows = []
    for name, dataset in found.items():
        train = sizes(dataset.train)
        ours = (len(train), train.sum(), train.mean(), np.std(train))
        theirs = paper.TABLE_1.get(name, (None,) * 4)
        rows.append([f'`{name}`', *(text for mine, published in zip(ours, theirs) for text in (
            f'{mine:,.0f}', '–' if published is None else f'{published:,}')), f'{sizes(dataset.test).sum():,}'])
    notes = [f'- `{name}`: {text}' for name, dataset in found.items() if (text := remarks(name, dataset))]
    return [(header, rows)], notes + [f'- missing: `{name}`: {reason}' for name, reason in missing.items()]
