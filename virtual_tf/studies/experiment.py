"""What an experiment is, and a grid of them."""
import dataclasses
import itertools

from virtual_tf.methods import registry


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What is run: a name, which is also the path of its folder, and all settings that are not defaults."""
    name: str
    given: tuple            # ((setting, value), …)

    def settings(self, seed=0):
        """The Settings of one run."""
        return registry.make_settings(dict(self.given) | {'seed': seed})

    def folder(self, seed):
        return f'{self.name}/seed-{seed}'


def experiment(name, *givens):
    """An Experiment from dicts of settings, of which a later one wins."""
    merged = {}
    for given in givens:
        merged |= given
    return Experiment(name, tuple(sorted(merged.items())))


def grid(name, given, axes):
    """Every combination of the axes' values: {((setting, value), …): Experiment}"""
    points = [tuple(zip(axes, values)) for values in itertools.product(*axes.values())]
    return {point: experiment(f'{name}/{folder_of(point)}' if point else name, given, dict(point)) for point in points}


def folder_of(point):
    """What the folder of a grid's point is called."""
    return '_'.join(f'{name}={value:g}' if isinstance(value, float) else f'{name}={value}' for name, value in point)
