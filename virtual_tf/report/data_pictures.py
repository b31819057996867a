"""Pictures of federated data sets: how much each client has, and of what."""
import numpy as np
from matplotlib.ticker import MaxNLocator

from virtual_tf.runs.drawing import plt

_MOST_CLASSES = 20   # that a picture can show


def clients(datasets, path):
    """Sizes and label mixes of each data set's clients, largest first; datasets: {name: FederatedDataset}."""
    figure, axes = plt.subplots(len(datasets), 2, figsize=(10, 0.6 + 2.1 * len(datasets)), squeeze=False,
                                layout='constrained')
    for (left, right), (name, dataset) in zip(axes, datasets.items()):
        order = np.argsort(-(dataset.train.targets() + dataset.test.targets()), kind='stable')
        _draw_sizes(left, dataset, order)
        left.set_title(f'{name}: {len(order)} clients' + (f' ({dataset.caveat})' if dataset.caveat else ''),
                       fontsize='medium', loc='left')
        figure.colorbar(_draw_mix(right, dataset, order), ax=right, label='share')
        for axis in (left, right):
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0, 1].set_title('label mix of each client', fontsize='medium', loc='left')
    for axis in axes[-1]:
        axis.set_xlabel('client, by size')
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc='outside upper left', ncols=2, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def label_mix(dataset):
    """Share of each class in each client's targets [K, classes], training and test together."""
    counts = np.zeros([len(dataset.clients), dataset.num_classes])
    for split in (dataset.train, dataset.test):
        owner = np.repeat(np.arange(len(dataset.clients)), split.sizes())
        labels = split.y.reshape(len(split.y), -1)
        real = labels >= 0
        np.add.at(counts, (np.broadcast_to(owner[:, np.newaxis], labels.shape)[real], labels[real]), 1)
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def _draw_sizes(axis, dataset, order):
    positions, train, test = np.arange(len(order)), dataset.train.targets()[order], dataset.test.targets()[order]
    axis.bar(positions, train, width=1.0, label='train')
    axis.bar(positions, test, width=1.0, bottom=train, label='test')
    axis.set_ylabel('targets' if dataset.train.y.ndim > 1 else 'examples')
    axis.margins(x=0)


def _draw_mix(axis, dataset, order):
    mix = label_mix(dataset)[order]
    label = 'class'
    if mix.shape[1] > _MOST_CLASSES:
        mix = mix[:, np.argsort(-mix.sum(axis=0), kind='stable')[:_MOST_CLASSES]]
        label = f'{_MOST_CLASSES} commonest classes'
    axis.set_ylabel(label)
    axis.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    return axis.imshow(mix.T, aspect='auto', interpolation='nearest', cmap='viridis', vmin=0)
