"""Every setting of a run in one frozen record: scripts make their flags from it, config.json is its contents.

Presets: `paper` is the paper's text, `authors` the choices of the authors' code, `ours` what measured best here
(BUILD_NOTES.md has the runs). A preset gives defaults; what the user sets wins.
"""
import dataclasses

from virtual_tf.core.errors import VirtualTfError


def _setting(default, help, choices=None, low=None, high=None, above=None, free=False):
    """A field with its help line and its legal range: low ≤ value ≤ high, value > above.

    A `free` setting may change when a run is continued, because the rounds before do not depend on it.
    """
    return dataclasses.field(default=default, metadata={
        'help': help, 'choices': choices, 'low': low, 'high': high, 'above': above, 'free': free})


@dataclasses.dataclass(frozen=True)
class Settings:
    method: str = _setting('virtual', 'federated method')
    preset: str = _setting('ours', 'defaults for what you do not set', ('ours', 'paper', 'authors'), free=True)
    dataset: str = _setting('watch', 'federated data set, or leaf:PATH or npz:PATH for your own')
    model: str = _setting('mlp', 'network')
    rounds: int = _setting(60, 'communication rounds, T', low=1, free=True)
    clients_per_round: int = _setting(10, 'clients selected each round, C', low=1)
    epochs: int = _setting(20, 'epochs a round on each selected client, E', low=1)
    batch_size: int = _setting(20, 'examples in an SGD step, B', low=1)
    client_lr: float = _setting(0.1, 'learning rate of the clients\' SGD, η_c', above=0.0)
    server_lr: float = _setting(
        0.2, 'server learning rate, η_s: exponent of the aggregated delta (virtual), step (baselines)',
        above=0.0, high=10.0)
    damping: float = _setting(
        0.8, 'exponent γ of a client\'s proposal; presets paper and authors: 1 − η_s', above=0.0, high=1.0)
    kl_weight: float = _setting(1e-5, 'weight β of the KL terms in the free energy', low=0.0)
    l2: float = _setting(0.01, 'FedProx: factor of (1/2)·‖w − w₀‖²', low=0.0)
    prior_scale: float = _setting(1.0, 'standard deviation of the priors p(θ) and p(φ)', above=0.0)
    prior_weighting: str = _setting(
        'uniform', 'exponents w_i of prior and initial factors: 1/K, or N_i/N', ('uniform', 'size'))
    init_scale: float = _setting(0.02, 'initial standard deviation σ₀ of the posterior', above=0.0)
    mean_init: str = _setting('normal', 'initial means m₀: N(0, mean_init_scale²), or Glorot\'s', ('normal', 'glorot'))
    mean_init_scale: float = _setting(0.05, 'standard deviation of the initial means with mean_init=normal', low=0.0)
    parameterisation: str = _setting(
        'mean_scale', 'coordinates of the clients\' SGD: (μ, σ), or (χ, ξ) as in the authors\' code',
        ('mean_scale', 'natural'))
    estimator: str = _setting(
        'local', 'noise of Bayesian dense layers: local reparameterisation, or one weight sample a step',
        ('local', 'sample'))
    use_bias: bool = _setting(False, 'give dense and convolutional layers biases')
    private: str = _setting(
        'residual', 'private weights φ_i: none, trained jointly with θ (the paper), or on what θ leaves over',
        ('none', 'joint', 'residual'))
    gate_init: float = _setting(0.3, 'initial gate g of the lateral connections', above=0.0)
    private_mean_init: str = _setting('glorot', 'initial means of φ_i, as mean_init', ('normal', 'glorot'))
    private_mean_scale: float = _setting(
        0.01, 'standard deviation of these means with private_mean_init=normal', low=0.0)
    private_scale: float = _setting(0.01, 'initial standard deviation of c_i(φ_i)', above=0.0)
    mt_model: str = _setting('trained', 'what MT tests: the q_i trained last, or the damped one', ('trained', 'damped'))
    factor_bookkeeping: str = _setting(
        'exact', 'factor that a client keeps: what the server applied, or its damped proposal (the authors\' code)',
        ('exact', 'authors'))
    client_start: str = _setting(
        'posterior', 'q that a client\'s training starts from: the posterior, or cavity · posterior^{w_i} '
        '("Virtual + FedAvg init")', ('posterior', 'fedavg_init'))
    prune: int = _setting(0, 'virtual: percent of a delta that is pruned, lowest scores first', low=0, high=99)
    prune_score: str = _setting(
        'authors', 'score of an element of a delta: |Δχ|/√|ξ| with ξ of the new factor, or |Δχ|/√|Δξ|',
        ('authors', 'update'))
    prune_scope: str = _setting('layer', 'what a percentile is taken over', ('layer', 'network'))
    prune_output: bool = _setting(True, 'prune the output layer too')
    error_feedback: bool = _setting(False, 'add what was pruned of a client\'s delta to its next one')
    values: str = _setting('float32', 'type in which the numbers of a delta travel', ('float32', 'float16'))
    min_precision: float = _setting(0.01, 'smallest precision m that the posterior may reach', above=0.0)
    max_precision_drop: float = _setting(
        0.5, 'largest share of a precision that one round may take away; 1 leaves it to min_precision',
        above=0.0, high=1.0)
    min_scale: float = _setting(0.002, 'smallest σ while a client trains', above=0.0)
    max_scale: float = _setting(1.0, 'largest σ while a client trains', above=0.0)
    eval_samples: int = _setting(0, 'weight samples that a prediction averages; 0 uses the means', low=0)
    validation_fraction: float = _setting(
        0.0, 'share of each client\'s training data held out to choose the round', low=0.0, high=0.9)
    histogram_every: int = _setting(20, 'rounds between TensorBoard histograms; 0 for none', low=0, free=True)
    standardize: str = _setting(
        'none', 'features as published, or standardised by the training data of each client or of all',
        ('none', 'client', 'global'))
    max_clients: int = _setting(
        100, 'femnist, writers: clients drawn by seed; shakespeare: the first ones; 0 for all', low=0)
    download: bool = _setting(True, 'fetch raw files that are not under data_dir', free=True)
    synthetic_alpha: float = _setting(1.0, 'synthetic data: how much the clients\' models differ, α', low=0.0)
    synthetic_beta: float = _setting(1.0, 'synthetic data: how much their inputs differ, β', low=0.0)
    synthetic_iid: bool = _setting(False, 'synthetic data: the IID form')
    synthetic_clients: int = _setting(30, 'synthetic data: number of clients', low=1)
    synthetic_max_size: int = _setting(2000, 'synthetic data: cap on a client\'s examples', low=50)
    compile: str = _setting(
        'auto', 'compiler of the client loop; auto is what measured faster', ('auto', 'xla', 'graph'))
    checkpoint_every: int = _setting(
        10, 'rounds between checkpoints, beside the one at the end; 0 for none at all', low=0, free=True)
    store: str = _setting(
        'auto', 'where the clients\' states are kept; auto is memory up to 1 GiB, else files in the run\'s folder',
        ('auto', 'memory', 'disk'), free=True)
    clients_per_call: int = _setting(
        0, 'clients in one compiled call, fewer to save memory; 0 for all of a round', low=0, free=True)
    seed: int = _setting(0, 'seed of everything random', low=0)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            _check(field, getattr(self, field.name))
        if self.init_scale ** -2 < self.min_precision:
            raise VirtualTfError(f'init_scale = {self.init_scale} starts below min_precision = {self.min_precision}; '
                                 f'use an init_scale of at most {self.min_precision ** -0.5:g}')
        for name in ('init_scale', *(['private_scale'] if self.private != 'none' else [])):
            if not self.min_scale <= getattr(self, name) <= self.max_scale:
                raise VirtualTfError(f'{name} = {getattr(self, name)} is outside [min_scale, max_scale] = '
                                     f'[{self.min_scale}, {self.max_scale}]; change one of them')
        if self.error_feedback and self.factor_bookkeeping == 'authors':
            raise VirtualTfError('error_feedback with factor_bookkeeping=authors would count what was pruned twice, as '
                                 'that factor holds it already; use factor_bookkeeping=exact')
        if self.parameterisation == 'natural' and self.private != 'none':
            raise VirtualTfError(f'parameterisation=natural with private={self.private}: rates of natural parameters '
                                 'are too large for gates; use private=none or parameterisation=mean_scale')

    def differences(self, stored):
        """Settings in which a run with the dict `stored` can not be continued by this one: {name: (then, now)}"""
        return {field.name: (stored.get(field.name), getattr(self, field.name)) for field in dataclasses.fields(self)
                if not field.metadata['free'] and (
                    field.name not in stored or stored[field.name] != getattr(self, field.name))}

    def same_run(self, stored):
        """Whether a run with the dict `stored` is the one that these settings ask for."""
        return not self.differences(stored) and stored['rounds'] == self.rounds

    def variant(self):
        """Name of the run's folder: the method, and for private weights how they are trained."""
        return self.method if self.private == 'none' else f'{self.method}-{self.private}'


PRESETS = {
    'ours': {},
    'paper': {'private': 'joint', 'server_lr': 0.4, 'damping': None, 'init_scale': 0.0078, 'min_scale': 0.001,
              'prune_score': 'update'},
    'authors': {'private': 'none', 'server_lr': 0.4, 'damping': None, 'prior_weighting': 'size',
                'parameterisation': 'natural', 'client_lr': 1e7, 'estimator': 'sample', 'init_scale': 0.0078,
                'min_scale': 0.001, 'mt_model': 'damped', 'factor_bookkeeping': 'authors', 'prune_output': False},
}
# The paper trains text in batches of 10; small initial weights, which suit an MLP, leave an LSTM's gates undecided.
# Roles differ much in length: in calls of two, of similar length, the short do not wait for the long.
OF_MODEL = {'lstm': {'batch_size': 10, 'mean_init': 'glorot', 'client_lr': 1.0, 'clients_per_call': 2}}
# Rates that suit the scale of the inputs, for every method (BUILD_NOTES.md has the runs).
OF_DATASET = {'mnist': {'client_lr': 0.2}, 'pmnist': {'client_lr': 0.2}, 'femnist': {'client_lr': 0.2},
              'writers': {'client_lr': 0.2}, 'har': {'client_lr': 0.02}, 'hapt': {'client_lr': 0.02}}
# What the presets say about Gaussians and private paths is not for the baselines, whose η_s = 1 is plain averaging.
BASELINE = {'private': 'none', 'server_lr': 1.0, 'client_lr': 0.1, 'damping': 1.0, 'parameterisation': 'mean_scale'}


def make_settings(given):
    """Settings from what the user has set: {name: value}; the rest comes from preset, method, model and data."""
    preset, method = given.get('preset', 'ours'), given.get('method', 'virtual')
    if preset not in PRESETS:
        raise VirtualTfError(f'preset must be one of {", ".join(PRESETS)}, got {preset!r}')
    usual = (OF_DATASET.get(given.get('dataset', Settings.dataset), {})
             | OF_MODEL.get(given.get('model', Settings.model), {}))
    if method in ('fedavg', 'fedprox'):
        values = PRESETS[preset] | BASELINE | usual | given
    else:
        values = usual | PRESETS[preset] | given
    if values.get('damping', 1.0) is None:
        server_lr = values.get('server_lr', Settings.server_lr)
        if server_lr >= 1.0:
            raise VirtualTfError(f'damping = 1 − server_lr = {1.0 - server_lr:g} with server_lr = {server_lr:g} would '
                                 'freeze the clients; set damping, or a server_lr below 1')
        values['damping'] = 1.0 - server_lr
    return Settings(**values)


def _check(field, value):
    name, rule = field.name, field.metadata
    if rule['choices'] and value not in rule['choices']:
        raise VirtualTfError(f'{name} must be one of {", ".join(rule["choices"])}, got {value!r}')
    if isinstance(value, float) and not abs(value) < float('inf'):
        raise VirtualTfError(f'{name} must be a finite number, got {value}')
    for bad, bound in ((rule['low'] is not None and value < rule['low'], f'at least {rule["low"]}'),
                       (rule['above'] is not None and value <= rule['above'], f'greater than {rule["above"]}'),
                       (rule['high'] is not None and value > rule['high'], f'at most {rule["high"]}')):
        if bad:
            hint = '; 0 would freeze the clients' if name == 'damping' and value == 0 else ''
            raise VirtualTfError(f'{name} must be {bound}, got {value}{hint}')
