"""Pictures of runs, from what their folders hold."""
import numpy as np

from virtual_tf.methods import registry
from virtual_tf.runs.drawing import plt

_PANELS = (('server/accuracy', 'S accuracy, %', 100.0), ('mt/accuracy', 'MT accuracy, %', 100.0),
           ('server/cross_entropy', 'S cross-entropy', 1.0), ('mt/cross_entropy', 'MT cross-entropy', 1.0))


def style(label):
    """Colour and line style of a method; matplotlib's next ones for another name."""
    return dict(zip(('color', 'linestyle'), registry.looks().get(label, ())))


def mean_history(histories):
    """The mean over runs of what learning_curves draws, round by round."""
    return [{'round': rows[0]['round']} | {key: sum(row[key] for row in rows) / len(rows) for key, *_ in _PANELS}
            for rows in zip(*histories)]


def learning_curves(histories, path, title):
    """Accuracy and cross-entropy of S and MT by round; histories: {label: [metrics of a round, …]}."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.5), sharex=True, layout='constrained')
    for axis, (key, label, factor) in zip(axes.flat, _PANELS):
        for name, history in histories.items():
            rounds, values = zip(*((row['round'], factor * row[key]) for row in history))
            axis.plot(rounds, values, label=name, linewidth=1.5)
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
        if key.endswith('cross_entropy'):
            axis.set_yscale('log')
            axis.set_xlabel('round')
    axes[0, 0].legend(frameon=False)
    figure.suptitle(title)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def snr_cdfs(distributions, grid, path):
    """Writes the picture of snr_figure."""
    figure = snr_figure(distributions, grid)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def snr_figure(distributions, grid, title=None):
    """CDF of log10 SNR of all clients' weights, a panel for each layer; distributions: {label: {layer: CDF [G]}}."""
    names = list(next(iter(distributions.values())))
    figure, axes = plt.subplots(1, len(names), figsize=(1 + 3.2 * len(names), 3.4), sharey=True, squeeze=False,
                                layout='constrained')
    for axis, name in zip(axes[0], names):
        for label, cdfs in distributions.items():
            axis.plot(grid, cdfs[name], label=label, linewidth=1.5, **style(label))
        shown = [grid[(cdfs[name] > 1e-3) & (cdfs[name] < 1 - 1e-3)] for cdfs in distributions.values()]
        shown = np.concatenate([*shown, [-1.0, 1.0]])
        axis.set_xlim(shown.min(), shown.max())
        axis.axvline(0.0, color='grey', linewidth=0.8, linestyle=':')
        axis.set(title=name, xlabel='log10 SNR')
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel('share of weights below')
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc='outside lower center', ncols=2, frameon=False)
    if title:
        figure.suptitle(title)
    return figure
