"""Where real data lies, and a home of its own for each test, so that none finds what another prepared."""
import os
import pathlib

import pytest

_ROOT = pathlib.Path(__file__).parents[2]
_REAL = pathlib.Path(os.environ.get('VIRTUAL_TF_DATA', _ROOT.parent / 'shared' / 'data'))


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp('home')
    monkeypatch.setenv('HOME', str(folder))
    return folder


@pytest.fixture
def real_data(tmp_path):
    """A function that makes a data root with links to these folders of real data, or skips the test."""
    def link(*folders):
        for folder in folders:
            if not (_REAL / folder).is_dir():
                pytest.skip(f'no real {folder}')
            (tmp_path / folder).symlink_to(_REAL / folder)
        return tmp_path
    return link
