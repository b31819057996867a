"""Pictures of runs, from their metrics alone."""
import matplotlib

matplotlib.use('Agg')
import matplotlib.pyplot as plt

_PANELS = (('server/accuracy', 'S accuracy, %', 100.0), ('mt/accuracy', 'MT accuracy, %', 100.0),
           ('server/cross_entropy', 'S cross-entropy', 1.0), ('mt/cross_entropy', 'MT cross-entropy', 1.0))


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
