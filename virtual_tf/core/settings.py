"""Settings: each is declared once, with its help line and its range, and becomes a flag; a record holds those of a run.

COMMON has what every run has. What only some methods have is declared beside them (methods/registry.py).
"""
import dataclasses
import numbers

from virtual_tf.core.errors import VirtualTfError, unknown


@dataclasses.dataclass(frozen=True)
class Setting:
    """A default, a help line and the legal range: low ≤ value ≤ high, value > above.

    A `free` setting may change when a run is continued, because the rounds before do not depend on it. A record from
    before there was the setting has `absent`, if that is not its default.
    """
    default: bool | int | float | str
    help: str
    choices: tuple = ()
    low: float | None = None
    high: float | None = None
    above: float | None = None
    free: bool = False
    group: str = 'method'     # its heading in --help
    hint: str = ''            # what a value out of range would do
    absent: bool | int | float | str | None = None

    @property
    def of_old(self):
        """The value that a record which lacks the setting stands for."""
        return self.default if self.absent is None else self.absent

    @property
    def type(self):
        return type(self.default)

    def checked(self, name, value):
        """The value, a float where one is wanted, or the error that names the range."""
        # NumPy's numbers are as good as Python's.
        if self.type is float and isinstance(value, numbers.Real) and not isinstance(value, bool):
            value = float(value)
        elif self.type is int and isinstance(value, numbers.Integral) and not isinstance(value, bool):
            value = int(value)
        if type(value) is not self.type:
            raise VirtualTfError(f'{name} must be of type {self.type.__name__}, got {value!r}')
        if self.choices and value not in self.choices:
            raise VirtualTfError(f'{name} must be one of {", ".join(self.choices)}, got {value!r}')
        if self.type is float and not abs(value) < float('inf'):
            raise VirtualTfError(f'{name} must be a finite number, got {value}')
        for bad, bound in ((self.low is not None and value < self.low, f'at least {self.low}'),
                           (self.above is not None and value <= self.above, f'greater than {self.above}'),
                           (self.high is not None and value > self.high, f'at most {self.high}')):
            if bad:
                raise VirtualTfError(f'{name} must be {bound}, got {value}' + (f'; {self.hint}' if self.hint else ''))
        return value


class Settings:
    """The settings of one run as attributes; never changed, compared by their values."""
    __slots__ = ('_values', 'declared')

    def __init__(self, values, declared):
        """values: {name: value}, the rest are defaults; declared: {name: Setting}, all that this run has."""
        for name in values:
            if name not in declared:
                raise unknown('setting', name, declared)
        checked = {name: setting.checked(name, values.get(name, setting.default)) for name, setting in declared.items()}
        object.__setattr__(self, '_values', checked)
        object.__setattr__(self, 'declared', declared)

    def __getattr__(self, name):
        if name.startswith('_') or name not in self._values:
            raise AttributeError(f'a run of this method has no setting {name!r}')
        return self._values[name]

    def __setattr__(self, name, value):
        raise AttributeError(f'settings never change; use replace({name}=…)')

    def __contains__(self, name):
        return name in self._values

    def __eq__(self, other):
        return isinstance(other, Settings) and self._values == other._values

    def __hash__(self):
        return hash(tuple(self._values.items()))

    def __repr__(self):
        return f'Settings({", ".join(f"{name}={value!r}" for name, value in self._values.items())})'

    def __reduce__(self):
        return Settings, (self._values, self.declared)

    def get(self, name, default):
        """A setting that not every method has."""
        return self._values.get(name, default)

    def to_dict(self):
        return dict(self._values)

    def replace(self, **changes):
        """The same settings but for these."""
        return Settings(self._values | changes, self.declared)

    def differences(self, stored):
        """Settings in which a run with the dict `stored` can not be continued by this one: {name: (then, now)}

        What a stored record lacks counts as what it was before it could be set, so a new setting invalidates nothing
        that was kept.
        """
        then = {name: stored.get(name, setting.of_old) for name, setting in self.declared.items()}
        return {name: (then[name], value) for name, value in self._values.items()
                if not self.declared[name].free and then[name] != value}

    def same_run(self, stored):
        """Whether a run with the dict `stored` is the one that these settings ask for."""
        return not self.differences(stored) and stored['rounds'] == self.rounds

    def variant(self):
        """Name of the run's folder: the method, and for private weights how they are trained."""
        private = self.get('private', 'none')
        return self.method if private == 'none' else f'{self.method}-{private}'


def _group(name, **settings):
    return {key: dataclasses.replace(setting, group=name) for key, setting in settings.items()}


COMMON = {
    **_group(
        'run',
        method=Setting('virtual', 'federated method'),
        preset=Setting('ours', 'defaults for what you do not set', free=True),
        rounds=Setting(60, 'communication rounds, T', low=1, free=True),
        clients_per_round=Setting(10, 'clients selected each round, C', low=1),
        epochs=Setting(20, 'epochs a round on each selected client, E', low=1),
        batch_size=Setting(20, 'examples in an SGD step, B', low=1),
        client_lr=Setting(0.1, 'learning rate of the clients\' SGD, η_c', above=0.0),
        server_lr=Setting(
            1.0, 'server learning rate, η_s: exponent of the aggregated delta (virtual), step (baselines)',
            above=0.0, high=10.0),
        server_decay=Setting(
            0.0, 'rounds τ after which the server\'s step has halved: η_s / (1 + t/τ) in round t; 0 for a constant one',
            low=0.0),
        seed=Setting(0, 'seed of everything random', low=0),
        compile=Setting('auto', 'compiler of the client loop; auto is what measured faster', ('auto', 'xla', 'graph')),
        clients_per_call=Setting(
            0, 'most clients in one compiled call, fewer to save memory; 0 for as many as take least time', low=0,
            free=True),
        threads=Setting(
            0, 'groups of clients that train at a time, at most one on each core of the process; 0 for one on each',
            low=0, free=True),
        store=Setting(
            'auto', 'where the clients\' states are kept; auto is memory up to 1 GiB, else files in the run\'s folder',
            ('auto', 'memory', 'disk'), free=True)),
    **_group(
        'data',
        dataset=Setting('watch', 'federated data set, or leaf:PATH or npz:PATH for your own'),
        max_clients=Setting(
            100, 'femnist, writers: clients drawn by seed; shakespeare: the first ones; 0 for all', low=0),
        split=Setting('', 'regroup the examples by label: dirichlet:ALPHA, or classes:N for N classes a client'),
        split_clients=Setting(100, 'clients that split makes', low=1),
        standardize=Setting(
            'none', 'features as published; standardised by the training data of each client or of all; or less each '
            'client\'s own mean, at their scale', ('none', 'client', 'global', 'center')),
        validation_fraction=Setting(
            0.0, 'share of each client\'s training data held out to choose the round', low=0.0, high=0.9),
        unseen_fraction=Setting(
            0.0, 'share of the clients that take no part, by seed, and are tested at the end: as the server is, and '
            'after 1, 5 and 20 epochs of their own', low=0.0, high=0.9),
        download=Setting(True, 'fetch raw files that are not under data_dir', free=True),
        synthetic_alpha=Setting(1.0, 'synthetic data: how much the clients\' models differ, α', low=0.0),
        synthetic_beta=Setting(1.0, 'synthetic data: how much their inputs differ, β', low=0.0),
        synthetic_iid=Setting(False, 'synthetic data: the IID form'),
        synthetic_clients=Setting(30, 'synthetic data: number of clients', low=1),
        synthetic_max_size=Setting(2000, 'synthetic data: cap on a client\'s examples', low=50)),
    **_group(
        'model',
        model=Setting('mlp', 'network'),
        use_bias=Setting(False, 'give dense and convolutional layers biases'),
        mean_init=Setting('normal', 'initial means m₀: N(0, mean_init_scale²), or Glorot\'s', ('normal', 'glorot')),
        mean_init_scale=Setting(0.05, 'standard deviation of the initial means with mean_init=normal', low=0.0)),
    **_group(
        'guards',
        max_gradient_norm=Setting(
            0.0, 'norm to which a client\'s gradient is clipped in every step; 0 for none', low=0.0),
        backtracking=Setting(
            True, 'of what a client has found take 1, ½, ¼ or nothing: the most that does not raise its own objective',
            absent=False)),
    **_group(
        'what travels',
        values=Setting('float32', 'type in which the numbers of a delta travel', ('float32', 'float16'))),
    **_group(
        'output',
        eval_samples=Setting(
            0, 'weight samples over which predictions are averaged, beside those at the means; 0 for none', low=0),
        histogram_every=Setting(20, 'rounds between TensorBoard histograms; 0 for none', low=0, free=True),
        checkpoint_every=Setting(
            10, 'rounds between checkpoints, beside the one at the end; 0 for none at all', low=0, free=True)),
}
