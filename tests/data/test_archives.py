"""Trees in folders and in zip archives."""
import made_up

from virtual_tf.data import archives


def test_folder_and_zips_read_alike(tmp_path):
    (tmp_path / 'top' / 'inner').mkdir(parents=True)
    (tmp_path / 'top' / 'inner' / 'A.txt').write_bytes(b'a')
    (tmp_path / 'a.zip').write_bytes(made_up.zip_of({'top/inner/A.txt': b'a'}))
    (tmp_path / 'b.zip').write_bytes(made_up.zip_of({'c.ZIP': made_up.zip_of({'top/inner/A.txt': b'a'})}))
    for source in ('top', 'a.zip', 'b.zip'):
        tree = archives.members(tmp_path / source)
        reader, = archives.find(tree, ['Inner/a.txt'])
        assert list(tree) == ['top/inner/A.txt'] and reader() == b'a'
        assert archives.find(tree, ['inner/a.txt', 'b.txt']) is None


def test_whole_names_are_compared(tmp_path):
    (tmp_path / 'a.zip').write_bytes(made_up.zip_of({'train/._X.txt': b'fork', 'train/X.txt': b'x'}))
    reader, = archives.find(archives.members(tmp_path / 'a.zip'), ['X.txt'])
    assert reader() == b'x'
