"""The run configuration of the Flower app: every setting of a run, and what only a deployment has to be told."""
import dataclasses

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import Settings, make_settings
from virtual_tf.data.download import DATA_DIR

# Of a round with secure aggregation: with two, each sees the other's delta; with more, the sum of steps overflows.
FEWEST, MOST = 3, 1000
UNSET = ''     # a run configuration has a value for every key


@dataclasses.dataclass(frozen=True)
class Options:
    clients: int = 4               # K, all of whom introduce themselves before the first round
    fraction: float = 1.0          # of them that a round selects, unless clients_per_round says how many
    round_timeout: float = 600.0   # seconds in which a reply counts
    start_timeout: float = 600.0   # seconds in which all clients have to be there
    norm_bound: float = 100.0      # largest norm of a delta, relative to that of the server's state
    evaluation: str = 'server'     # where S is measured: server has the data set, as in a trial, or the clients do
    pinned: bool = False           # a client's number stays with the node that first had it: with SuperNode keys
    secure: bool = False           # SecAgg+: the server sees the sum of the deltas, and no single one
    resume: bool = True
    output_dir: str = 'runs/flower'
    state_dir: str = 'runs/flower-clients'     # of clients whose node configuration names no folder
    data_dir: str = DATA_DIR

    def __post_init__(self):
        if self.evaluation not in ('server', 'clients'):
            raise VirtualTfError(f'evaluation must be server or clients, got {self.evaluation!r}')
        for name in ('clients', 'round_timeout', 'start_timeout', 'norm_bound', 'fraction'):
            if not getattr(self, name) > 0:
                raise VirtualTfError(f'{name} must be greater than 0, got {getattr(self, name)}')


def parse(config):
    """(Options, Settings) of a run configuration."""
    given = {key.replace('-', '_'): value for key, value in config.items() if value != UNSET}
    options = Options(**_typed(Options, given))
    chosen = _typed(Settings, given)
    unknown = {*given} - {field.name for kind in (Options, Settings) for field in dataclasses.fields(kind)}
    if unknown:
        raise VirtualTfError(f'the run configuration has {", ".join(sorted(unknown))}, which is no setting')
    chosen.setdefault('clients_per_round', max(1, round(options.fraction * options.clients)))
    settings = make_settings(chosen)
    if options.secure and (settings.method != 'virtual' or settings.factor_bookkeeping != 'exact'):
        raise VirtualTfError('secure aggregation is for method=virtual with factor_bookkeeping=exact; use secure=false')
    if options.secure and not FEWEST <= settings.clients_per_round <= MOST:
        raise VirtualTfError(f'secure aggregation needs {FEWEST} to {MOST} clients a round, clients_per_round is '
                             f'{settings.clients_per_round}')
    return options, settings


def _typed(kind, given):
    """The values of one dataclass; TOML's 1 may stand for 1.0."""
    values = {}
    for field in dataclasses.fields(kind):
        if field.name in given:
            value = given[field.name]
            if field.type is float and isinstance(value, int) and not isinstance(value, bool):
                value = float(value)
            if type(value) is not field.type:
                raise VirtualTfError(f'{field.name} must be of type {field.type.__name__}, got {value!r}')
            values[field.name] = value
    return values
