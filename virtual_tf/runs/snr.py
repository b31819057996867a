"""How compressible the clients' posteriors are: the distribution of log10 SNR of their weights, layer by layer.

The SNR of a weight is |μ|/σ of the client's q_i, the one that MT tests. A distribution is kept as the number of weights
below each point of a grid, with the number of all weights at the end: it takes no memory for the weights themselves,
and distributions of several runs add up.
"""
import numpy as np

from virtual_tf.methods.virtual import gaussian
from virtual_tf.networks import layers

GRID = np.arange(-600, 401) / 100     # log10 SNR; 0 is on it, so the share below SNR 1 is exact
_AT_ONCE = 100     # clients whose states are in memory
FILE, PICTURE = 'snr_cdf.npz', 'snr_cdf.png'


def measure(simulation, state):
    """{layer: counts [G + 1]} over all clients that have trained; {} for a method without Gaussians."""
    counts = {}
    trained = [i for i in range(len(simulation.dataset.clients)) if i in state.clients]
    chunk = min(simulation.settings.clients_per_round, _AT_ONCE)
    for start in range(0, len(trained), chunk):
        models = simulation.algorithm.client_models(state.clients.read(trained[start:start + chunk]))
        for name, weight in models.shared.items():
            if layers.is_gaussian(weight):
                layer = name.split('/')[0]
                counts[layer] = counts.get(layer, 0) + count_below(gaussian.signal_to_noise(weight).numpy())
    return counts


def count_below(snr):
    """Number of values whose log10 lies below each point of the grid, and of all of them: [G + 1]"""
    with np.errstate(divide='ignore'):     # a mean of exactly 0 lies below every point
        cells = np.searchsorted(GRID, np.log10(snr.reshape(-1)), side='right')
    return np.cumsum(np.bincount(cells, minlength=len(GRID) + 1))


def load(folders):
    """{layer: counts [G + 1]} of several runs together; a run in which every client was dropped has none."""
    total = {}
    for folder in folders:
        if not (folder / FILE).exists():
            continue
        with np.load(folder / FILE) as stored:
            total = {layer: stored[layer] + total.get(layer, 0) for layer in stored.files}
    return total


def shares(counts):
    """{layer: CDF [G]}"""
    return {layer: values[:-1] / values[-1] for layer, values in counts.items()}


def percent_below_one(counts):
    """The share of all weights whose SNR is below 1, in percent."""
    cut = int(np.searchsorted(GRID, 0.0))
    return 100 * sum(values[cut] for values in counts.values()) / sum(values[-1] for values in counts.values())


def read_out(counts_by_variant):
    """Sentences on the picture: the share of weights below SNR 1, by layer and variant, and which variant has more."""
    below, lines = {}, []
    for variant, counts in counts_by_variant.items():
        below[variant] = percent_below_one(counts)
        by_layer = ', '.join(f'{layer} {percent_below_one({layer: values}):.1f} %' for layer, values in counts.items())
        lines.append(f'{variant}: {below[variant]:.1f} % of the weights have an SNR below 1 ({by_layer}).')
    if len(below) > 1:
        first, second = sorted(below, key=below.get, reverse=True)[:2]
        margin = below[first] - below[second]
        lines.append(f'More compressible is {first}, by {margin:.1f} points of that share over {second}.'
                     if margin >= 0.05 else f'{first} and {second} are equally compressible, to 0.1 points.')
    return '\n'.join(lines)
