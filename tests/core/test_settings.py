import pickle

import numpy as np
import pytest

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import Setting, Settings

DECLARED = {'method': Setting('virtual', ''), 'rounds': Setting(4, '', low=1, free=True), 'rate': Setting(0.5, '')}


def make(**values):
    return Settings(values, DECLARED)


def test_what_is_not_given_has_its_default():
    assert make(rate=0.1).to_dict() == {'method': 'virtual', 'rounds': 4, 'rate': 0.1}
    assert make().get('other', 7) == 7 and make().get('rounds', 7) == 4
    assert 'rate' in make() and 'other' not in make()


def test_settings_cannot_be_changed():
    settings = make()
    with pytest.raises(AttributeError, match='settings never change'):
        settings.rounds = 3
    assert settings.replace(rounds=3).rounds == 3 and settings.rounds == 4


def test_equal_values_make_equal_settings_also_after_a_journey():
    first = make(rate=0.25)
    assert first == make(rate=0.25) != make() and len({first, make(rate=0.25), make()}) == 2
    assert pickle.loads(pickle.dumps(first)) == first


def test_a_whole_number_may_stand_for_a_float_and_nothing_else_for_anything():
    assert isinstance(make(rate=1).rate, float)
    for name, value in (('rate', '1'), ('rounds', 1.0), ('rounds', True), ('method', 3)):
        with pytest.raises(VirtualTfError, match=f'{name} must be of type'):
            make(**{name: value})


def test_numpys_numbers_are_numbers():
    settings = make(rate=np.float32(0.25), rounds=np.int64(3))
    assert (settings.rate, type(settings.rate), type(settings.rounds)) == (0.25, float, int)


def test_a_setting_that_is_not_there_is_named():
    with pytest.raises(AttributeError, match="no setting 'other'"):
        make().other     # noqa: B018
    with pytest.raises(VirtualTfError, match="setting 'rats' is unknown; did you mean 'rate'"):
        make(rats=1)


def test_a_run_can_be_continued_unless_a_setting_that_is_not_free_differs():
    assert make(rounds=9).differences({'method': 'virtual', 'rounds': 4, 'rate': 0.5}) == {}
    assert make(rate=0.1).differences({'method': 'virtual', 'rate': 0.2}) == {'rate': (0.2, 0.1)}


def test_what_a_stored_record_lacks_counts_as_its_default():
    before = {'method': 'virtual', 'rounds': 4}
    assert make().same_run(before) and not make(rate=0.1).same_run(before) and not make(rounds=5).same_run(before)


def test_the_variant_names_the_private_path():
    declared = DECLARED | {'private': Setting('none', '', ('none', 'joint'))}
    assert Settings({}, declared).variant() == 'virtual'
    assert Settings({'private': 'joint'}, declared).variant() == 'virtual-joint'
