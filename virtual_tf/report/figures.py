"""The paper's figures, from what finished runs have left in their folders.

A figure is at most as wide as a page, and its text has 8 points there.
"""
import functools
import logging
from typing import NamedTuple

import numpy as np
from matplotlib import cm, colors, ticker

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.runs import pictures
from virtual_tf.runs.drawing import plt
from virtual_tf.runs.folder import RunFolder
from virtual_tf.runs.summary import MT, S

WINDOW = 20     # rounds of the moving average
DIVERGED = 10.0     # cross-entropy above which a curve of the KL study leaves the picture
BINS = 8        # groups of equally many clients in a trend
CROSS_ENTROPY = (('server/cross_entropy', 'S cross-entropy', 1.0), ('mt/cross_entropy', 'MT cross-entropy', 1.0),
                 ('train/loss', 'training loss', 1.0))
ACCURACY = ((S, 'S accuracy, %', 100.0), (MT, 'MT accuracy, %', 100.0),
            ('train/accuracy', 'training accuracy, %', 100.0))
_PAGE, _COLUMNS = 7.2, 4     # inches, and panels in them
_MARKERS = 'os^Dv<>PXp*hd8H'
_LEAST_ERROR = 0.01     # percent, on a logarithmic axis
_PRINT = {'font.size': 8, 'axes.titlesize': 'medium', 'figure.titlesize': 'large', 'legend.fontsize': 'medium',
          'figure.figsize': (_PAGE, 3.0), 'axes.grid': True, 'grid.alpha': 0.3}


class Sizes(NamedTuple):
    """Clients of one run, all [K]."""
    size: np.ndarray        # training targets
    accuracy: np.ndarray    # MT, NaN without test data
    trained: np.ndarray     # whether it was ever selected
    server: float           # accuracy of S on all test data


def sizes_of(run, dataset):
    """Sizes of the run's newest checkpoint, with the data that it was trained on."""
    found = RunFolder(run.folder).checkpoints.newest(with_clients=False)
    if found is None:
        raise VirtualTfError(f'{run.folder} has no checkpoint, which would hold the clients\' scores; remove it and '
                             'run it again')
    hits, targets, at = found.scores['mt']['hits'], dataset.test.targets(), found.round - 1
    # The run's own figure must come out, or these are not the run's data.
    if len(hits) != len(targets) or not np.isclose(hits.sum() / targets.sum(), run.metrics[MT][at]):
        raise VirtualTfError(f'{run.folder} was trained on other data than data_dir has under the name {dataset.name}')
    accuracy = np.where(targets > 0, hits / np.maximum(targets, 1), np.nan)
    return Sizes(dataset.train.targets(), accuracy, np.isin(np.arange(len(targets)), list(found.manifest)),
                 run.metrics[S][at])


def over_seeds(runs, key):
    """Rounds, mean, minimum and maximum [R] over runs, as far as the shortest goes."""
    length = min(run.rounds for run in runs)
    values = np.stack([run.metrics[key][:length] for run in runs])
    return runs[0].metrics['round'][:length], values.mean(axis=0), values.min(axis=0), values.max(axis=0)


def moving_average(values, window=WINDOW):
    """Mean of each value and of those before it, `window` in all; near the start of as many as there are."""
    return np.array([np.mean(values[max(0, end - window):end]) for end in range(1, len(values) + 1)])


def binned_means(sizes, values, bins=BINS):
    """Geometric mean size and mean value of groups of equally many clients, smallest first."""
    groups = [group for group in np.array_split(np.argsort(sizes, kind='stable'), bins) if len(group)]
    return (np.array([np.exp(np.mean(np.log(sizes[group]))) for group in groups]),
            np.array([np.mean(values[group]) for group in groups]))


def _in_print(draw):
    """Draws with text that is legible in print."""
    @functools.wraps(draw)
    def drawn(*arguments):
        with plt.rc_context(_PRINT):
            return draw(*arguments)
    return drawn


@_in_print
def kl_study(runs, title):
    """Cross-entropy of S and MT for each β; runs: {β: [Run, …]}."""
    figure, axes = plt.subplots(1, 2, sharex=True, layout='constrained')
    # The map's yellow end is left out: too bright for paper.
    shades = cm.ScalarMappable(colors.LogNorm(min(runs) / 2, max(runs) * 2),
                               colors.ListedColormap(plt.get_cmap('viridis')(np.linspace(0.0, 0.9, 256))))
    for axis, (key, label, _) in zip(axes, CROSS_ENTROPY):
        for weight, of_seeds in sorted(runs.items()):
            rounds, mean, *_ = over_seeds(of_seeds, key)
            for values, look in ((mean, {'linewidth': 0.6, 'alpha': 0.6}), (moving_average(mean), {'linewidth': 2.0})):
                shown = np.where(values > DIVERGED, np.nan, values)
                axis.plot(rounds, shown, color=shades.to_rgba(weight), **look)
        axis.set(xlabel='round', ylabel=label)
        _log_scale(axis)
    bar = figure.colorbar(shades, ax=axes, label='KL weight β', ticks=sorted(runs))
    bar.ax.minorticks_off()
    figure.suptitle(f'{title}\nthin: each round, thick: mean of the last {WINDOW} rounds')
    return figure


@_in_print
def curves(cases, metrics, title):
    """A column for each case, a row for each metric; cases: {title: {method: [Run, …]}}, a band is over seeds.

    What does not fit beside each other goes below, in rows of its own.
    """
    blocks, height = -(-len(cases) // _COLUMNS), len(metrics)
    width = -(-len(cases) // blocks)
    figure, axes = plt.subplots(blocks * height, width, squeeze=False, layout='constrained',
                                figsize=(min(_PAGE, 3.6 * width), 1.4 * blocks * height + 1.0))
    columns = [axes[height * block:height * (block + 1), i] for block in range(blocks) for i in range(width)]
    for i, (column, (name, methods)) in enumerate(zip(columns, cases.items())):
        _draw_case(column, methods, metrics, named=i % width == 0)
        column[0].set_title(name)
    for axis in np.ravel(columns[len(cases):]):
        axis.remove()
    handles = {label: line for axis in figure.axes for line, label in zip(*axis.get_legend_handles_labels())}
    figure.legend(handles.values(), handles, loc='outside lower center', ncols=min(len(handles), 1 + width),
                  frameon=False)
    figure.align_ylabels(axes[:, 0])
    figure.suptitle(title)
    return figure


def _draw_case(column, methods, metrics, named):
    """The panels of one case, one below the other."""
    for axis, (key, label, factor) in zip(column, metrics):
        for method, runs in methods.items():
            _draw_band(axis, method, runs, key, factor)
        axis.set_ylabel(label if named else '')
        axis.tick_params(labelbottom=axis is column[-1])
        axis.xaxis.set_major_locator(ticker.MaxNLocator(4, integer=True, steps=(1, 2, 5, 10)))
        if factor == 1.0:
            _log_scale(axis)
    column[-1].set_xlabel('round')


def _draw_band(axis, method, runs, key, factor):
    rounds, mean, low, high = over_seeds(runs, key)
    line, = axis.plot(rounds, factor * mean, label=method, linewidth=1.3, **pictures.style(method))
    if len(runs) > 1:
        axis.fill_between(rounds, factor * low, factor * high, color=line.get_color(), alpha=0.2, linewidth=0)


def _log_scale(axis):
    """Log y with a few plain numbers."""
    axis.set_yscale('log')
    axis.yaxis.set_major_locator(ticker.FixedLocator(log_ticks(*axis.get_ylim())))
    axis.yaxis.set_major_formatter(ticker.FormatStrFormatter('%g'))
    axis.yaxis.set_minor_formatter(ticker.NullFormatter())


def log_ticks(low, high):
    """From two to six round numbers between low and high, whether that is less than a power of ten or many."""
    decades = np.log10(high / low)
    if decades < 0.7:
        ticks = ticker.MaxNLocator(4, steps=(1, 2, 5, 10)).tick_values(low, high)
    else:
        subs = (1, 2, 5) if decades < 1.4 else (1, 3) if decades < 2.2 else (1,)
        powers = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1, np.ceil(decades / 5))
        ticks = np.concatenate([sub * 10.0 ** powers for sub in subs])
    return [tick for tick in sorted(ticks) if low <= tick <= high]


@_in_print
def snr(distributions, grid, title):
    """pictures.snr_figure as wide as a page."""
    figure = pictures.snr_figure(distributions, grid, title)
    figure.set_size_inches(_PAGE, 2.7)
    return figure


@_in_print
def client_size(methods, title):
    """MT accuracy of each client against its size, with a trend and the level of S; methods: {method: Sizes}."""
    figure, axis = plt.subplots(layout='constrained')
    for marker, (method, clients) in zip('o^sD', methods.items()):
        look, tested = pictures.style(method), np.isfinite(clients.accuracy)
        seen, unseen = tested & clients.trained, tested & ~clients.trained
        axis.plot(clients.size[seen], 100 * clients.accuracy[seen], marker, color=look['color'], markersize=3.5,
                  alpha=0.5, markeredgewidth=0, label=f'{method}: MT of a client')
        if unseen.any():
            axis.plot(clients.size[unseen], 100 * clients.accuracy[unseen], 'x', color=look['color'], markersize=3.5,
                      label=f'{method}: never selected')
        trend = binned_means(clients.size[seen], 100 * clients.accuracy[seen])
        axis.plot(*trend, **look, linewidth=2.0, label=f'{method}: mean of {BINS} groups')
        axis.axhline(100 * clients.server, **look, linewidth=0.8, label=f'{method}: S, all clients')
    axis.set(xscale='log', xlabel='training targets of the client (characters)', ylabel='MT accuracy, %', title=title)
    figure.legend(loc='outside right upper', frameon=False)
    return figure


def beside_each_other(values, near=0.1, step=0.035):
    """Places on an axis: values that nearly coincide stand side by side around their mean; `near` and `step` are
    shares of the span."""
    values = np.asarray(values, float)
    order, span = np.argsort(values, kind='stable'), np.ptp(values) or 1.0
    places = np.empty_like(values)
    for group in np.split(order, np.flatnonzero(np.diff(values[order]) > near * span) + 1):
        places[group] = values[group].mean() + step * span * (np.arange(len(group)) - (len(group) - 1) / 2)
    return places


@_in_print
def against_bytes(cases, title):
    """MT accuracy against megabytes up a round; cases: {title: {method: (megabytes, accuracy, half its interval)}}."""
    labels, rows = list(dict.fromkeys(label for methods in cases.values() for label in methods)), -(-len(cases) // 2)
    figure, axes = plt.subplots(rows, min(2, len(cases)), squeeze=False, layout='constrained',
                                figsize=(_PAGE, 2.6 * rows + 1.2))
    for axis, (name, methods) in zip(axes.flat, cases.items()):
        places = beside_each_other([megabytes for megabytes, *_ in methods.values()])
        for place, (label, (_, accuracy, half)) in zip(places, methods.items()):
            error = max(100.0 - accuracy, _LEAST_ERROR)
            axis.errorbar(place, error, [[min(half, 0.75 * error)], [half]], label=label,
                          fmt=_MARKERS[labels.index(label) % len(_MARKERS)], color=pictures.style(label).get('color'),
                          markersize=5, linewidth=1, capsize=2)
        axis.set(title=name, xlabel='MB that clients send in a round', ylabel='MT accuracy, %')
        # Steps near 100 % count for more: the axis is that of the error, upside down.
        _log_scale(axis)
        axis.yaxis.set_major_formatter(lambda error, _: f'{100.0 - error:g}')
        axis.invert_yaxis()
    for axis in axes.flat[len(cases):]:
        axis.remove()
    handles = {label: line for axis in figure.axes for line, label in zip(*axis.get_legend_handles_labels())}
    figure.legend([handles[label] for label in labels], labels, loc='outside lower center', ncols=4, frameon=False)
    figure.suptitle(title)
    return figure


def save(figure, folder, name, caption):
    """PNG, PDF and the caption as text; the same runs give the same files."""
    logging.getLogger('fontTools').setLevel(logging.WARNING)     # it tells each table of each font
    figure.savefig(folder / f'{name}.png', dpi=150)
    with plt.rc_context({'pdf.fonttype': 42}):     # TrueType: publishers refuse matplotlib's usual Type 3
        figure.savefig(folder / f'{name}.pdf', metadata={'CreationDate': None})
    plt.close(figure)
    (folder / f'{name}.txt').write_text(caption + '\n', encoding='utf-8')
