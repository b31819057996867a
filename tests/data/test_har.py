"""UCI's activity archives."""
import made_up
import numpy as np
import pytest

from virtual_tf import data
from virtual_tf.data import har
from virtual_tf.data.federated import DataError


def files(name='har', rows=(8, 4), labels=(1, 2), subjects=(1, 3)):
    """{path: text} of train and test: the subjects in turn, the labels in pairs; X counts the rows."""
    subject_file, folder = ('subject', str.lower) if name == 'har' else ('subject_id', str.title)
    content, done = {}, 0
    for part, count in zip(('train', 'test'), rows):
        numbers = np.arange(done, done + count)
        columns = {'X': np.repeat(numbers[:, np.newaxis] / 100, har.FEATURES, axis=1),
                   'y': np.asarray(labels)[numbers // 2 % len(labels)][:, np.newaxis],
                   subject_file: np.asarray(subjects)[numbers % len(subjects)][:, np.newaxis]}
        for kind, values in columns.items():
            content[f'{folder(part)}/{kind}_{part}.txt'] = made_up.text_of(values)
        done += count
    return content


def write_tree(folder, content):
    for name, text in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def load(root, name='har', **changes):
    return data.load(root, made_up.settings(name, **changes))


def check(dataset):
    # 12 rows, subjects 1 and 3 in turn: 6 each, of which a quarter rounds to 2 or 1 of each class's 3.
    assert dataset.clients == ('subject 1', 'subject 3') and dataset.num_classes == 6
    assert (dataset.train.sizes() + dataset.test.sizes()).tolist() == [6, 6]
    rows = np.rint(100 * np.concatenate([dataset.train.client(1)[0][:, 0], dataset.test.client(1)[0][:, 0]]))
    assert sorted(rows) == [1, 3, 5, 7, 9, 11]
    assert set(dataset.train.y) == {0, 1}


def test_unpacked_tree(tmp_path):
    write_tree(tmp_path / 'har' / 'UCI HAR Dataset', files())
    check(load(tmp_path))


def test_zip_inside_a_zip_with_resource_forks(tmp_path):
    tree = {f'UCI HAR Dataset/{name}': text for name, text in files().items()}
    tree['__MACOSX/UCI HAR Dataset/train/._X_train.txt'] = 'a fork'
    (tmp_path / 'har').mkdir()
    (tmp_path / 'har' / har.FILES['har'].name).write_bytes(
        made_up.zip_of({'UCI HAR Dataset.names': '', 'UCI HAR Dataset.zip': made_up.zip_of(tree)}))
    for _ in range(2):   # from the archive, then as prepared
        dataset = load(tmp_path)
        check(dataset)
        assert dataset.caveat == ''


def test_recomputed_features_are_said_to_be(tmp_path):
    (tmp_path / 'har').mkdir()
    (tmp_path / 'har' / 'any.zip').write_bytes(made_up.zip_of({**files(), har.RECOMPUTED: 'how'}))
    for _ in range(2):
        assert load(tmp_path).caveat == 'X recomputed from the signals'


def test_hapt_has_twelve_activities(tmp_path):
    write_tree(tmp_path / 'hapt', {**files('hapt', labels=(1, 12)), 'RawData/labels.txt': '1'})
    dataset = load(tmp_path, 'hapt')
    assert dataset.num_classes == 12 and set(dataset.train.y) == {0, 11} and dataset.name == 'hapt'


def test_split_follows_the_seed_from_one_prepared_file(tmp_path):
    write_tree(tmp_path / 'har', files(rows=(40, 20)))
    first, again, other = (load(tmp_path, seed=seed).test.x for seed in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert len(list((tmp_path / 'prepared').iterdir())) == 1


@pytest.mark.parametrize('change, sentence', [
    ({'train/y_train.txt': made_up.text_of(np.full([8, 1], 7))}, 'label 7 for subject 1, outside 1 to 6'),
    ({'train/y_train.txt': made_up.text_of(np.full([7, 1], 1))}, '8, 7, 8 rows of X, y and subject'),
    ({'train/X_train.txt': made_up.text_of(np.zeros([8, 560]))}, '560 columns instead of 561'),
    ({'train/X_train.txt': made_up.text_of(np.full([8, 561], np.nan))}, 'not a finite number'),
    ({'train/X_train.txt': '1 2 x\n'}, 'not a table of numbers'),
    ({'train/X_train.txt': ''}, 'columns instead of 561')])
@pytest.mark.filterwarnings('ignore:loadtxt')
def test_bad_table_is_one_sentence(tmp_path, change, sentence):
    write_tree(tmp_path / 'har', files() | change)
    with pytest.raises(DataError, match=sentence):
        load(tmp_path)
    assert not (tmp_path / 'prepared').exists()


def test_truncated_or_foreign_zip_is_one_sentence(tmp_path):
    (tmp_path / 'har').mkdir()
    path = tmp_path / 'har' / 'a.zip'
    path.write_bytes(made_up.zip_of(files())[:500])
    with pytest.raises(DataError, match='not a complete zip archive'):
        load(tmp_path)
    path.write_bytes(made_up.zip_of({'readme.txt': ''}))
    with pytest.raises(DataError, match=r'lacks one of train/X_train\.txt'):
        load(tmp_path)


def test_real_counts(real_data):
    dataset = load(real_data('har'))
    assert dataset.train.x.shape[1] == 561 and len(dataset.clients) == 30
    both = dataset.train.sizes() + dataset.test.sizes()
    assert (both.sum(), both.min(), both.max()) == (10299, 281, 409)
    labels = np.concatenate([dataset.train.y, dataset.test.y])
    assert np.bincount(labels).tolist() == [1722, 1544, 1406, 1777, 1906, 1944]
    assert dataset.caveat == ''     # UCI's own files
