import dataclasses

import pytest

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import PRESETS, Settings, make_settings

# Legal values next to a bound, from the meaning of the symbols; the first of each pair is refused.
BOUNDS = (
    ('rounds', 0, 1), ('clients_per_round', 0, 1), ('epochs', 0, 1), ('batch_size', 0, 1), ('client_lr', 0.0, 1e-9),
    ('server_lr', 0.0, 1e-9), ('server_lr', 10.1, 10.0), ('damping', 0.0, 1e-9), ('damping', 1.01, 1.0),
    ('kl_weight', -1e-9, 0.0), ('l2', -1e-9, 0.0), ('prior_scale', 0.0, 1e-3), ('init_scale', 0.0, 0.01),
    ('mean_init_scale', -1e-9, 0.0), ('gate_init', 0.0, 1e-3), ('private_mean_scale', -1e-9, 0.0),
    ('private_scale', 0.0, 2e-3), ('min_precision', 0.0, 1e-9), ('max_precision_drop', 0.0, 1e-3),
    ('max_precision_drop', 1.1, 1.0), ('min_scale', 0.0, 1e-6), ('max_scale', 0.0, 0.06), ('eval_samples', -1, 0),
    ('validation_fraction', -0.1, 0.0), ('validation_fraction', 0.95, 0.9), ('histogram_every', -1, 0),
    ('synthetic_alpha', -0.1, 0.0), ('synthetic_beta', -0.1, 0.0), ('synthetic_clients', 0, 1),
    ('synthetic_max_size', 49, 50), ('max_clients', -1, 0), ('checkpoint_every', -1, 0),
    ('clients_per_call', -1, 0), ('prune', -1, 0), ('prune', 100, 99),
    ('seed', -1, 0))


@pytest.mark.parametrize('name, bad, good', BOUNDS)
def test_a_value_beyond_its_bound_is_refused_and_the_next_one_is_not(name, bad, good):
    with pytest.raises(VirtualTfError, match=rf'^{name} must be .*, got {bad}'):
        make_settings({name: bad})
    assert getattr(make_settings({name: good}), name) == good


def test_every_setting_with_a_range_is_tried_above():
    ranged = {field.name for field in dataclasses.fields(Settings)
              if any(field.metadata[rule] is not None for rule in ('low', 'high', 'above'))}
    assert ranged == {name for name, _, _ in BOUNDS}


def test_numbers_have_a_range_and_words_a_choice_or_a_check_by_name():
    for field in dataclasses.fields(Settings):
        if field.type in (int, float):
            assert any(field.metadata[rule] is not None for rule in ('low', 'above')), field.name
        if field.type is str and field.name not in ('method', 'dataset', 'model'):
            assert field.metadata['choices'], field.name
        assert field.metadata['help']


@pytest.mark.parametrize('name', [field.name for field in dataclasses.fields(Settings) if field.metadata['choices']])
def test_an_unknown_choice_is_refused_with_the_known_ones(name):
    with pytest.raises(VirtualTfError, match=rf"^{name} must be one of .*, got 'nonsense'") as error:
        make_settings({name: 'nonsense'})
    choices = next(field for field in dataclasses.fields(Settings) if field.name == name).metadata['choices']
    assert all(choice in str(error.value) for choice in choices)


@pytest.mark.parametrize('value', [float('nan'), float('inf'), -float('inf')])
@pytest.mark.parametrize('name', [field.name for field in dataclasses.fields(Settings) if field.type is float])
def test_a_number_that_is_not_finite_is_refused(name, value):
    with pytest.raises(VirtualTfError, match=rf'^{name} must be'):
        Settings(**{name: value})


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
    ({'parameterisation': 'natural', 'private': 'residual'}, 'use private=none')])
def test_settings_that_contradict_each_other_are_refused(given, message):
    with pytest.raises(VirtualTfError, match=message):
        make_settings(given)


def test_a_private_scale_that_nobody_uses_is_not_looked_at():
    assert make_settings({'private_scale': 2.0, 'private': 'none'}).private_scale == 2.0


def test_settings_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_settings({}).rounds = 3


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


def test_ours_is_the_default_and_changes_nothing():
    assert make_settings({}) == make_settings({'preset': 'ours'}) == Settings()


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
