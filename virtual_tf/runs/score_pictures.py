"""Pictures of scores: how sure the models are and how often right, and how the clients fare."""
import numpy as np

from virtual_tf.runs import final_scores
from virtual_tf.runs.drawing import plt

RELIABILITY, CLIENTS = 'reliability.png', 'clients.png'
_PANELS = {'server': 'S', 'mt': 'MT'}
_WAYS = {'': ('', '-'), '_sampled': (', sampled', '--')}     # ending of a model: label, line


def draw(runs, folder, title):
    """Both pictures into a folder; runs: {label: [scores of a run, as final_scores.load has them, …]}."""
    reliability(runs, folder / RELIABILITY, title)
    clients(runs, folder / CLIENTS, title)


def reliability(runs, path, title):
    """Accuracy against confidence, bin by bin, a disc as large as its share of the answers; below, how sure the models
    were where they were right and wrong.
    """
    figure, axes = plt.subplots(2, 2, figsize=(9, 7.5), sharex=True, layout='constrained')
    for column, (model, name) in enumerate(_PANELS.items()):
        above, below = axes[:, column]
        above.plot([0, 1], [0, 1], color='grey', linewidth=0.8, linestyle=':')
        for label, dashes, colour, found in _lines(runs, model):
            sums = sum(final_scores.bins(one) for one in found)
            count, confidence, hits = sums[sums[:, 0] > 0].T     # an empty bin has no point
            above.plot(confidence / count, hits / count, dashes, color=colour, label=label, linewidth=1)
            above.scatter(confidence / count, hits / count, 4 + 200 * count / count.sum(), color=colour, alpha=0.5)
            if dashes == '-':
                _steps(below, sums[:, 2], colour, '-', f'{label}, right')
                _steps(below, sums[:, 0] - sums[:, 2], colour, ':', f'{label}, wrong')
        above.set(title=name, ylabel='accuracy' if column == 0 else None)
        below.set(xlabel='confidence', ylabel='share of its answers' if column == 0 else None)
        for axis in (above, below):
            axis.grid(alpha=0.3)
            _legend([axis], fontsize='small')
    _finish(figure, path, title)


def clients(runs, path, title):
    """The clients' accuracies in ascending order, a line a method; of several seeds all clients together."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout='constrained')
    for axis, (model, name) in zip(axes, _PANELS.items()):
        for label, dashes, colour, found in _lines(runs, model):
            values = np.sort(np.concatenate([final_scores.accuracies(one) for one in found]))
            shares = (np.arange(len(values)) + 0.5) / len(values)
            axis.plot(100 * shares, 100 * values, dashes, color=colour, label=label, linewidth=1.5)
        axis.set(title=name, xlabel='clients, % of them, the worst first')
        axis.grid(alpha=0.3)
    axes[0].set_ylabel('accuracy, %')
    _legend(axes)
    _finish(figure, path, title)


def _lines(runs, model):
    """(label, dashes, colour, scores of each run) of every line of a panel."""
    for number, (label, found) in enumerate(runs.items()):
        for ending, (suffix, dashes) in _WAYS.items():
            if chosen := [one[model + ending] for one in found if model + ending in one]:
                yield label + suffix, dashes, f'C{number}', chosen


def _steps(axis, counts, colour, dashes, label):
    """A histogram of confidences as shares; nothing without any."""
    if counts.sum() > 0:
        axis.stairs(counts / counts.sum(), np.linspace(0, 1, len(counts) + 1), color=colour, linestyle=dashes,
                    label=label)


def _legend(axes, **options):
    """A legend in the first panel that shows anything: a method without a server's model has nothing in S's."""
    shown = [axis for axis in axes if axis.get_legend_handles_labels()[0]]
    if shown:
        shown[0].legend(frameon=False, **options)


def _finish(figure, path, title):
    figure.suptitle(title)
    figure.savefig(path, dpi=130)
    plt.close(figure)
