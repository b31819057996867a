import pytest

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import COMMON, Setting
from virtual_tf.methods import registry
from virtual_tf.methods.registry import Method, make_settings
from virtual_tf.methods.virtual.settings import PRESETS

SETTINGS = COMMON | registry.own_settings()


def owner(name):
    """A method that has the setting."""
    return registry.owners(name)[0]


# Legal values next to a bound, from the meaning of the symbols; the first of each pair is refused.
BOUNDS = (
    ('rounds', 0, 1), ('clients_per_round', 0, 1), ('epochs', 0, 1), ('batch_size', 0, 1), ('client_lr', 0.0, 1e-9),
    ('server_lr', 0.0, 1e-9), ('server_lr', 10.1, 10.0), ('damping', 0.0, 1e-9), ('damping', 1.01, 1.0),
    ('kl_weight', -1e-9, 1e-12), ('l2', -1e-9, 0.0), ('prior_scale', 0.0, 1e-3), ('init_scale', 0.0, 0.01),
    ('mean_init_scale', -1e-9, 0.0), ('gate_init', 0.0, 1e-3), ('private_mean_scale', -1e-9, 0.0),
    ('private_scale', 0.0, 2e-3), ('min_precision', 0.0, 1e-9), ('max_precision_drop', 0.0, 1e-3),
    ('max_precision_drop', 1.1, 1.0), ('min_scale', 0.0, 1e-6), ('max_scale', 0.0, 0.06), ('eval_samples', -1, 0),
    ('validation_fraction', -0.1, 0.0), ('validation_fraction', 0.95, 0.9), ('histogram_every', -1, 0),
    ('synthetic_alpha', -0.1, 0.0), ('synthetic_beta', -0.1, 0.0), ('synthetic_clients', 0, 1),
    ('synthetic_max_size', 49, 50), ('max_clients', -1, 0), ('split_clients', 0, 1), ('checkpoint_every', -1, 0),
    ('clients_per_call', -1, 0), ('prune', -1, 0), ('prune', 100, 99),
    ('threads', -1, 0), ('unseen_fraction', -0.1, 0.0), ('unseen_fraction', 0.95, 0.9), ('server_decay', -1.0, 0.0),
    ('max_gradient_norm', -1.0, 0.0), ('fine_tune', -1, 1), ('precision_step', -0.1, 0.0),
    ('precision_step', 1.1, 1.0), ('private_kl_weight', -1e-9, 0.0), ('private_prior_scale', -1e-9, 0.0),
    ('gate_prior', -1e-9, 0.0), ('envelope_l2', 0.0, 1e-9), ('envelope_lr', 0.0, 1e-9), ('personal_steps', 0, 1),
    ('zeta', -1e-9, 0.0), ('global_lr', 0.0, 1e-9), ('head_layers', -1, 0), ('base_epochs', 0, 1),
    ('personal_l2', -1e-9, 0.0), ('own_weight', -1e-9, 0.0), ('mt_share', 0.0, 1e-9),
    ('mt_share', 1.01, 1.0), ('seed', -1, 0))


@pytest.mark.parametrize('name, bad, good', BOUNDS)
def test_a_value_beyond_its_bound_is_refused_and_the_next_one_is_not(name, bad, good):
    with pytest.raises(VirtualTfError, match=rf'^{name} must be .*, got {bad}'):
        make_settings({'method': owner(name), name: bad})
    assert getattr(make_settings({'method': owner(name), name: good}), name) == good


def test_every_setting_with_a_range_is_tried_above():
    ranged = {name for name, setting in SETTINGS.items() if any(
        bound is not None for bound in (setting.low, setting.high, setting.above))}
    assert ranged == {name for name, _, _ in BOUNDS}


def test_numbers_have_a_range_and_words_a_choice_or_a_check_by_name():
    for name, setting in SETTINGS.items():
        if setting.type in (int, float):
            assert setting.low is not None or setting.above is not None, name
        if setting.type is str and name not in ('method', 'dataset', 'split', 'model', 'preset'):
            assert setting.choices, name
        assert setting.help and setting.checked(name, setting.default) == setting.default


@pytest.mark.parametrize('name', [name for name, setting in SETTINGS.items() if setting.choices])
def test_an_unknown_choice_is_refused_with_the_known_ones(name):
    with pytest.raises(VirtualTfError, match=rf"^{name} must be one of .*, got 'nonsense'") as error:
        make_settings({'method': owner(name), name: 'nonsense'})
    assert all(choice in str(error.value) for choice in SETTINGS[name].choices)


@pytest.mark.parametrize('value', [float('nan'), float('inf'), -float('inf')])
@pytest.mark.parametrize('name', [name for name, setting in SETTINGS.items() if setting.type is float])
def test_a_number_that_is_not_finite_is_refused(name, value):
    with pytest.raises(VirtualTfError, match=rf'^{name} must be'):
        make_settings({'method': owner(name), name: value})


@pytest.mark.parametrize('given, message', [
    ({'method': 'nonsense'}, "method 'nonsense' is unknown; known are"),
    ({'method': ['fedavg', 'virtual']}, 'method must be of type str'),
    ({'method': 'fedavgg'}, "did you mean 'fedavg'"),
    ({'preset': 'papers'}, "did you mean 'paper'"),
    ({'client_rl': 0.1}, "did you mean 'client_lr'"),
    ({'method': 'fedavg', 'kl_weight': 0.1}, 'kl_weight is a setting of .*virtual.*, not of fedavg; leave it out'),
    ({'method': 'virtual', 'l2': 0.1}, 'l2 is a setting of fedprox, not of virtual')])
def test_what_nothing_stands_behind_is_refused(given, message):
    with pytest.raises(VirtualTfError, match=message):
        make_settings(given)


def test_a_run_has_the_common_settings_and_its_methods_own():
    assert {*make_settings({'method': 'fedprox'}).to_dict()} == {
        *COMMON, 'l2', 'fine_tune', 'mt_share', 'private', 'gate_init', 'private_mean_init', 'private_mean_scale'}
    assert 'l2' not in make_settings({}) and 'kl_weight' not in make_settings({'method': 'fedavg'})


@pytest.mark.parametrize('method', ['virtual', 'fedavg'])
def test_inputs_are_alike_for_every_method_and_as_published_where_the_paper_is_asked_for(method):
    def of(**given):
        settings = make_settings({'method': method, 'dataset': 'femnist'} | given)
        return settings.standardize, settings.client_lr, settings.max_gradient_norm
    assert of() == of(standardize='center') == ('center', 0.2, 0.0)
    assert of(standardize='none') == ('none', 0.05, 5.0) and of(standardize='client') == ('client', 0.2, 0.0)
    # VIRTUAL's presets have no guards.
    assert of(preset='paper') == ('none', 0.05, 0.0 if method == 'virtual' else 5.0)
    assert of(preset='authors')[0] == 'none' and of(preset='paper', standardize='center')[:2] == ('center', 0.2)


@pytest.fixture
def plain(monkeypatch):
    """A method of one's own, which is gone after the test."""
    monkeypatch.setattr(registry, 'METHODS', dict(registry.METHODS))
    return registry.register(Method('plain', None, 'Plain', settings={'warmth': Setting(0.5, 'how warm', low=0.0)},
                                    defaults={'server_lr': 0.7}, presets={'hot': {'warmth': 2.0}}))


def test_a_new_method_gets_nobody_elses_defaults(plain):
    settings = make_settings({'method': 'plain'})
    assert {*settings.to_dict()} == {*COMMON, 'warmth'}
    assert (settings.warmth, settings.server_lr, settings.variant()) == (0.5, 0.7, 'plain')
    assert make_settings({'method': 'plain', 'preset': 'hot'}).warmth == 2.0
    assert registry.owners('warmth') == ['plain'] and 'hot' in registry.presets()


@pytest.mark.parametrize('method, message', [
    (Method('fedavg', None, ''), "method 'fedavg' is there already"),
    (Method('mine', None, '', settings={'rounds': Setting(1, '')}), "'rounds' of method 'mine' is one that every"),
    (Method('mine', None, '', settings={'warm': Setting('0.9', '', above=0.0)}), "default '0.9'.*give a number"),
    (Method('mine', None, '', settings={'l2': Setting('a', '')}), "'l2' of method 'mine' is of type str")])
def test_a_method_that_clashes_is_refused(plain, method, message):
    with pytest.raises(VirtualTfError, match=message):
        registry.register(method)


def test_of_flags_for_several_methods_each_takes_its_own(plain):
    given = {'rounds': 3, 'l2': 0.1, 'kl_weight': 0.2, 'warmth': 1.0, 'typo': 1}
    assert registry.applicable('fedprox', given) == {'rounds': 3, 'l2': 0.1, 'typo': 1}
    assert registry.applicable('plain', given) == {'rounds': 3, 'warmth': 1.0, 'typo': 1}


def test_a_stored_record_is_read_whatever_it_has_of_other_versions():
    settings = registry.read_settings({'method': 'fedavg', 'rounds': 7, 'kl_weight': 1e-5, 'gone': 1})
    assert (settings.rounds, settings.epochs) == (7, COMMON['epochs'].default) and 'kl_weight' not in settings


def test_auto_is_the_compiler_that_measured_faster():
    assert registry.with_compiler(make_settings({})).compile == 'xla'
    assert registry.with_compiler(make_settings({'model': 'conv'})).compile == 'graph'
    assert registry.with_compiler(make_settings({'compile': 'graph'})).compile == 'graph'


def test_text_gets_the_model_that_takes_it_with_the_values_that_suit_it():
    settings = make_settings({'dataset': 'shakespeare'})
    assert settings.model == 'lstm' and settings == make_settings({'dataset': 'shakespeare', 'model': 'lstm'})
    assert {name: getattr(settings, name) for name in registry.OF_MODEL['lstm']} == registry.OF_MODEL['lstm']
    own = make_settings({'dataset': 'shakespeare', 'model': 'mlp', 'batch_size': 7})
    assert (own.model, own.batch_size, own.client_lr) == ('mlp', 7, COMMON['client_lr'].default)
    assert make_settings({}).model == make_settings({'dataset': 'mnist'}).model == 'mlp'


def test_every_label_has_one_look():
    looks = registry.looks()
    assert {method.label for method in registry.METHODS.values()} <= {*looks}
    assert len({str(look) for look in looks.values()}) == len(looks)


def test_no_damping_is_refused_with_the_reason():
    with pytest.raises(VirtualTfError, match='0 would freeze the clients'):
        make_settings({'damping': 0.0})


@pytest.mark.parametrize('given, message', [
    # 0.2^-2 = 25 < 30
    ({'init_scale': 0.2, 'min_precision': 30.0}, 'init_scale = 0.2 starts below min_precision'),
    ({'init_scale': 0.05, 'max_scale': 0.04}, 'outside'),
    ({'init_scale': 0.05, 'min_scale': 0.06}, 'outside'),
    ({'private_scale': 0.001, 'private': 'residual'}, 'private_scale = 0.001 is outside'),
    ({'private_scale': 2.0, 'private': 'joint'}, 'private_scale = 2.0 is outside'),
    ({'parameterisation': 'natural', 'private': 'residual', 'precision_update': 'sgd'}, 'use private=none'),
    ({'parameterisation': 'natural'}, 'or precision_update=sgd'), ({'kl_weight': 0.0}, 'or precision_update=sgd'),
    ({'mt_model': 'tuned', 'fine_tune': 0}, 'tunes nothing')])
def test_settings_that_contradict_each_other_are_refused(given, message):
    with pytest.raises(VirtualTfError, match=message):
        make_settings(given)


def test_a_private_scale_that_nobody_uses_is_not_looked_at():
    assert make_settings({'private_scale': 2.0, 'private': 'none'}).private_scale == 2.0


def test_the_papers_preset_is_its_text():
    settings = make_settings({'preset': 'paper'})
    assert (settings.private, settings.prior_weighting, settings.parameterisation) == ('joint', 'uniform', 'mean_scale')
    assert (settings.estimator, settings.factor_bookkeeping, settings.mt_model) == ('local', 'exact', 'trained')
    # App. D: γ = 1 − η_s
    assert settings.damping == pytest.approx(1 - settings.server_lr)


def test_the_authors_preset_is_their_code():
    settings = make_settings({'preset': 'authors'})
    assert (settings.private, settings.prior_weighting, settings.parameterisation) == ('none', 'size', 'natural')
    assert (settings.estimator, settings.factor_bookkeeping, settings.mt_model) == ('sample', 'authors', 'damped')
    assert settings.damping == pytest.approx(1 - settings.server_lr)


def test_ours_is_the_default():
    assert make_settings({}) == make_settings({'preset': 'ours'})


@pytest.mark.parametrize('preset', PRESETS)
@pytest.mark.parametrize('method', ['fedavg', 'fedprox'])
def test_the_baselines_average_plainly_under_every_preset(method, preset):
    settings = make_settings({'method': method, 'preset': preset})
    assert (settings.server_lr, settings.private, settings.client_lr) == (1.0, 'none', 0.1)


@pytest.mark.parametrize('preset', ['paper', 'authors'])
def test_what_the_user_sets_wins_over_preset_and_method(preset):
    settings = make_settings({'preset': preset, 'damping': 0.9, 'prior_weighting': 'size', 'init_scale': 0.01})
    assert (settings.damping, settings.prior_weighting, settings.init_scale) == (0.9, 'size', 0.01)
    assert make_settings({'preset': preset, 'server_lr': 0.25}).damping == 0.75
    assert make_settings({'preset': preset, 'method': 'fedavg', 'server_lr': 0.5}).server_lr == 0.5


@pytest.mark.parametrize('server_lr', [1.0, 1.5])
def test_a_server_rate_that_leaves_no_damping_is_refused(server_lr):
    with pytest.raises(VirtualTfError, match='would freeze the clients; set damping, or a server_lr below 1'):
        make_settings({'preset': 'paper', 'server_lr': server_lr})
    assert make_settings({'preset': 'paper', 'server_lr': server_lr, 'damping': 0.5}).damping == 0.5


def test_the_variant_names_method_and_private_weights():
    assert make_settings({'private': 'none'}).variant() == 'virtual'
    assert make_settings({'private': 'joint'}).variant() == 'virtual-joint'
    assert make_settings({'method': 'fedavg'}).variant() == 'fedavg'
