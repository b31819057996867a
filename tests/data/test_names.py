"""Which data sets there are, by name."""
import pathlib

import made_up
import pytest

from virtual_tf import data
from virtual_tf.data.federated import DataError
from virtual_tf.runs import driver
from virtual_tf.studies import paper


def test_all_of_the_papers_data_sets_have_loaders():
    assert paper.TABLE_1.keys() <= data.LOADERS.keys()


@pytest.mark.parametrize('name', ['imagenet', 'leaf', 'leaf:', 'npz:', ''])
def test_unknown_names_list_the_known(name):
    with pytest.raises(DataError, match=r'is unknown; known are femnist, hapt, .*leaf:PATH, npz:PATH'):
        driver.check_names(made_up.settings(name))


@pytest.mark.parametrize('name', ['har', 'leaf:a/b', 'npz:a.npz'])
def test_known_names_pass(name):
    driver.check_names(made_up.settings(name))


@pytest.mark.parametrize('name', ['mnist', 'pmnist', 'femnist', 'writers', 'vsn', 'har', 'hapt', 'shakespeare'])
def test_missing_files_say_what_to_fetch_and_leave_nothing(tmp_path, name):
    with pytest.raises(DataError, match=r'fetch http.* by hand into') as caught:
        data.load(tmp_path / 'root', made_up.settings(name))
    assert '\n' not in str(caught.value) and not (tmp_path / 'root').exists()


def test_only_the_data_folder_imports_tfds_and_lazily():
    root = pathlib.Path(data.__file__).parents[2]
    users = [path for folder in ('virtual_tf', 'scripts') for path in (root / folder).rglob('*.py')
             if 'tensorflow_datasets' in path.read_text(encoding='utf-8')]
    assert [path.name for path in users] == ['download.py']
    assert all(line.startswith(' ') for line in users[0].read_text(encoding='utf-8').splitlines()
               if 'from tensorflow_datasets' in line)
