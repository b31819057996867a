"""VIRTUAL's own settings and presets.

`paper` is the paper's text, `authors` the choices of the authors' code, `ours` what measured best here (BUILD_NOTES.md
has the runs). `pvi` is partitioned variational inference (Ashman et al. 2022): the free energy as it is, β = 1, no
private weights, and new factors factor^{1−γ} · (q/cavity)^γ, which the server multiplies in whole. A preset gives
defaults; what the user sets wins.
"""
import dataclasses

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import Setting
from virtual_tf.methods import fine_tuning, private_path

_TRAVELS = 'what travels'
SETTINGS = {
    'damping': Setting(
        0.8, 'exponent γ of a client\'s proposal; presets paper and authors: 1 − η_s', above=0.0, high=1.0,
        hint='0 would freeze the clients'),
    'kl_weight': Setting(0.03, 'weight β of the KL terms in the free energy', low=0.0),
    'precision_update': Setting(
        'natural', 'how a client trains its precisions: by natural gradient, or σ by SGD as in the paper',
        ('natural', 'sgd'), absent='sgd'),
    'precision_step': Setting(0.05, 'step ρ of the natural gradient', low=0.0, high=1.0),
    'delta_weighting': Setting(
        'uniform', 'exponents of the clients\' deltas: 1, or K·N_i/N, for clients that differ much in size',
        ('uniform', 'size')),
    'prior_scale': Setting(0.1, 'standard deviation of the prior p(θ)', above=0.0),
    'prior_weighting': Setting(
        'uniform', 'exponents w_i of prior and initial factors: 1/K, or N_i/N', ('uniform', 'size')),
    'init_scale': Setting(0.04, 'initial standard deviation σ₀ of the posterior', above=0.0),
    'parameterisation': Setting(
        'mean_scale', 'coordinates of the clients\' SGD: (μ, σ), or (χ, ξ) as in the authors\' code',
        ('mean_scale', 'natural')),
    'estimator': Setting(
        'local', 'noise of Bayesian dense layers: local reparameterisation, or one weight sample a step',
        ('local', 'sample')),
    **private_path.SETTINGS,
    'private': dataclasses.replace(
        private_path.SETTINGS['private'], choices=('none', 'joint', 'residual', 'after'),
        help='private weights φ_i: none, trained jointly with θ (the paper), on what θ leaves over in each step, or '
             'after θ against what is deployed'),
    'gate_init': dataclasses.replace(private_path.SETTINGS['gate_init'], default=0.05, absent=0.3),
    'private_scale': Setting(0.01, 'initial standard deviation of c_i(φ_i)', above=0.0),
    'private_kl_weight': Setting(0.0, 'weight of the KL term of c_i(φ_i); 0 for kl_weight', low=0.0),
    'private_prior_scale': Setting(
        0.1, 'standard deviation of the prior p(φ); 0 for prior_scale', low=0.0, absent=0.0),
    'gate_prior': Setting(
        1.0, 'rate λ of the gates\' prior exp(−λ·Σg), which holds shut what does not earn its place', low=0.0,
        absent=0.0),
    'mt_model': Setting(
        'tuned', 'what MT tests: the q_i trained last, its mean after fine_tune epochs more, or the damped one',
        ('trained', 'tuned', 'damped')),
    'fine_tune': dataclasses.replace(fine_tuning.SETTINGS['fine_tune'], default=20),
    'factor_bookkeeping': Setting(
        'exact', 'factor that a client keeps: what the server applied, or its damped proposal (the authors\' code)',
        ('exact', 'authors')),
    'client_start': Setting(
        'posterior', 'q that a client\'s training starts from: the posterior, or cavity · posterior^{w_i} '
        '("Virtual + FedAvg init")', ('posterior', 'fedavg_init')),
    'prune': Setting(0, 'percent of a delta that is pruned, lowest scores first', low=0, high=99, group=_TRAVELS),
    'prune_score': Setting(
        'authors', 'score of an element of a delta: |Δχ|/√|ξ| with ξ of the new factor, or |Δχ|/√|Δξ|',
        ('authors', 'update'), group=_TRAVELS),
    'prune_scope': Setting('layer', 'what a percentile is taken over', ('layer', 'network'), group=_TRAVELS),
    'prune_output': Setting(True, 'prune the output layer too', group=_TRAVELS),
    'error_feedback': Setting(False, 'add what was pruned of a client\'s delta to its next one', group=_TRAVELS),
    'min_precision': Setting(0.01, 'smallest precision m that the posterior may reach', above=0.0),
    'max_precision_drop': Setting(
        0.5, 'largest share of a precision that one round may take away; 1 leaves it to min_precision',
        above=0.0, high=1.0),
    'min_scale': Setting(0.002, 'smallest σ while a client trains', above=0.0),
    'max_scale': Setting(1.0, 'largest σ while a client trains', above=0.0),
}
# What neither the paper nor its authors' code has.
_WITHOUT_OURS = {'precision_update': 'sgd', 'kl_weight': 1e-5, 'mt_model': 'trained', 'max_gradient_norm': 0.0,
                 'backtracking': False, 'prior_scale': 1.0, 'private_prior_scale': 0.0, 'gate_prior': 0.0,
                 'gate_init': 0.3}
# damping = None stands for 1 − server_lr.
PRESETS = {
    'ours': {},
    'paper': _WITHOUT_OURS | {
        'private': 'joint', 'server_lr': 0.4, 'damping': None, 'init_scale': 0.0078, 'min_scale': 0.001,
        'prune_score': 'update'},
    'authors': _WITHOUT_OURS | {
        'private': 'none', 'server_lr': 0.4, 'damping': None, 'prior_weighting': 'size', 'parameterisation': 'natural',
        'client_lr': 1e7, 'estimator': 'sample', 'init_scale': 0.0078, 'min_scale': 0.001, 'mt_model': 'damped',
        'factor_bookkeeping': 'authors', 'prune_output': False},
    'pvi': {'private': 'none', 'kl_weight': 1.0, 'precision_step': 0.01, 'prior_scale': 1.0, 'init_scale': 0.02,
            'server_lr': 1.0, 'damping': 0.16, 'mt_model': 'damped'},
}


def complete(values):
    """damping, where a preset makes it follow from server_lr."""
    if values.get('damping', 1.0) is not None:
        return values
    server_lr = values['server_lr']
    if server_lr >= 1.0:
        raise VirtualTfError(f'damping = 1 − server_lr = {1.0 - server_lr:g} with server_lr = {server_lr:g} would '
                             'freeze the clients; set damping, or a server_lr below 1')
    return values | {'damping': 1.0 - server_lr}


def check(settings):
    """Refuses settings that do not go together."""
    if settings.init_scale ** -2 < settings.min_precision:
        raise VirtualTfError(f'init_scale = {settings.init_scale} starts below min_precision = '
                             f'{settings.min_precision}; use an init_scale of at most '
                             f'{settings.min_precision ** -0.5:g}')
    for name in ('init_scale', *(['private_scale'] if settings.private != 'none' else [])):
        if not settings.min_scale <= getattr(settings, name) <= settings.max_scale:
            raise VirtualTfError(f'{name} = {getattr(settings, name)} is outside [min_scale, max_scale] = '
                                 f'[{settings.min_scale}, {settings.max_scale}]; change one of them')
    if settings.error_feedback and settings.factor_bookkeeping == 'authors':
        raise VirtualTfError('error_feedback with factor_bookkeeping=authors would count what was pruned twice, as '
                             'that factor holds it already; use factor_bookkeeping=exact')
    if settings.precision_update == 'natural' and (settings.parameterisation == 'natural' or not settings.kl_weight):
        raise VirtualTfError('precision_update=natural needs kl_weight > 0 and parameterisation=mean_scale; set them, '
                             'or precision_update=sgd')
    if settings.mt_model == 'tuned' and not settings.fine_tune:
        raise VirtualTfError('mt_model=tuned with fine_tune = 0 tunes nothing; give fine_tune epochs, or '
                             'mt_model=trained')
    if settings.parameterisation == 'natural' and settings.private != 'none':
        raise VirtualTfError(f'parameterisation=natural with private={settings.private}: rates of natural parameters '
                             'are too large for gates; use private=none or parameterisation=mean_scale')
