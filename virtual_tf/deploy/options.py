"""The run configuration of the Flower app: every setting of a run, and what only a deployment has to be told."""
import dataclasses
import json

from virtual_tf.core import plugins
from virtual_tf.core.errors import VirtualTfError, unknown
from virtual_tf.core.settings import COMMON
from virtual_tf.data.download import DATA_DIR
from virtual_tf.methods import registry

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
    plugins: str = ''              # files with models and methods of your own, by commas; clients need them too
    own_settings: str = ''         # settings of a plug-in's method as JSON: {"rate": 0.1}

    def __post_init__(self):
        if self.evaluation not in ('server', 'clients'):
            raise VirtualTfError(f'evaluation must be server or clients, got {self.evaluation!r}')
        for name in ('clients', 'round_timeout', 'start_timeout', 'norm_bound', 'fraction'):
            if not getattr(self, name) > 0:
                raise VirtualTfError(f'{name} must be greater than 0, got {getattr(self, name)}')


def parse(config):
    """(Options, Settings) of a run configuration."""
    given = {key.replace('-', '_'): value for key, value in config.items() if value != UNSET}
    names = [field.name for field in dataclasses.fields(Options)]
    options = _options({name: given.pop(name) for name in names if name in given})
    plugins.load_all(options.plugins)
    given |= _own_settings(options.own_settings)
    known = {*COMMON, *registry.own_settings()}
    for name in given:
        if name not in known:
            raise unknown('run configuration', name, known | {*names})
    given.setdefault('clients_per_round', max(1, round(options.fraction * options.clients)))
    settings = registry.make_settings(given)
    _check_secure(options, settings)
    return options, settings


def _check_secure(options, settings):
    if not options.secure:
        return
    if not registry.find(settings.method).natural_deltas or settings.get('factor_bookkeeping', 'exact') != 'exact':
        able = ', '.join(name for name, method in registry.METHODS.items() if method.natural_deltas)
        raise VirtualTfError(f'secure aggregation is for method={able} with factor_bookkeeping=exact; use secure=false')
    if not FEWEST <= settings.clients_per_round <= MOST:
        raise VirtualTfError(f'secure aggregation needs {FEWEST} to {MOST} clients a round, clients_per_round is '
                             f'{settings.clients_per_round}')


def _own_settings(text):
    try:
        values = json.loads(text or '{}')
    except ValueError as error:
        raise VirtualTfError(f'own_settings = {text!r} is no JSON ({error}); write it as {{"rate": 0.1}}') from None
    if not isinstance(values, dict):
        raise VirtualTfError(f'own_settings = {text!r} is no JSON object; write it as {{"rate": 0.1}}')
    return values


def _options(given):
    """The Options; TOML's 1 may stand for 1.0."""
    values = {}
    for field in dataclasses.fields(Options):
        if field.name in given:
            value = given[field.name]
            if field.type is float and type(value) is int:
                value = float(value)
            if type(value) is not field.type:
                raise VirtualTfError(f'{field.name} must be of type {field.type.__name__}, got {value!r}')
            values[field.name] = value
    return Options(**values)
