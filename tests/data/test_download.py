"""Downloads, from a server of our own."""
import functools
import hashlib
import http.server
import threading

import pytest

from virtual_tf.data.download import RemoteFile, fetch
from virtual_tf.data.federated import DataError


class Server(http.server.SimpleHTTPRequestHandler):
    requests = ()

    def do_GET(self):
        type(self).requests += (self.path,)
        super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    """(folder that is served, function from names in it to RemoteFiles, function to the paths asked for)"""
    folder = tmp_path / 'served'
    folder.mkdir()
    handler = type('Handler', (Server,), {})
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(handler, directory=folder)) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()

        def remote(name, content=b'content'):
            url = f'http://127.0.0.1:{running.server_port}/{name}'
            return RemoteFile(name, url, hashlib.sha256(content).hexdigest())

        yield folder, remote, lambda: handler.requests
        running.shutdown()


def test_fetches_what_is_missing_once(tmp_path, server):
    folder, remote, requests = server
    for name in 'ab':
        (folder / name).write_bytes(b'content')
    (tmp_path / 'root' / 'set').mkdir(parents=True)
    (tmp_path / 'root' / 'set' / 'a').write_bytes(b'by hand')
    for _ in range(2):
        first, second = fetch(tmp_path / 'root', 'set', (remote('a'), remote('b')))
    assert first.read_bytes() == b'by hand' and second.read_bytes() == b'content'
    assert requests() == ('/b',)
    assert sorted(path.name for path in (tmp_path / 'root' / 'set').iterdir()) == ['a', 'b']


def test_finished_files_are_kept_when_a_later_one_fails(tmp_path, server):
    folder, remote, requests = server
    (folder / 'a').write_bytes(b'content')
    files = remote('a'), remote('b')
    with pytest.raises(DataError, match=r'lacks a, b, and the download failed \(DownloadError\); fetch http.*/a, http'):
        fetch(tmp_path / 'root', 'set', files)
    assert [path.name for path in (tmp_path / 'root' / 'set').iterdir()] == ['a']
    (folder / 'b').write_bytes(b'content')
    fetch(tmp_path / 'root', 'set', files)
    assert requests() == ('/a', '/b', '/b')


def test_wrong_checksum_leaves_nothing(tmp_path, server):
    folder, remote, _ = server
    (folder / 'a').write_bytes(b'other content')
    with pytest.raises(DataError, match='instead of'):
        fetch(tmp_path / 'root', 'set', (remote('a'),))
    assert not (tmp_path / 'root').exists()


def test_no_network_leaves_nothing_and_says_what_to_do(tmp_path):
    # Port 9 of this machine discards, and nothing listens there.
    file = RemoteFile('a', 'http://127.0.0.1:9/a')
    with pytest.raises(DataError, match=r'fetch http://127\.0\.0\.1:9/a by hand into .*root/set, or point --data_dir'):
        fetch(tmp_path / 'root', 'set', (file,))
    assert not (tmp_path / 'root').exists()


def test_no_download_when_told_so_or_read_only(tmp_path):
    file = RemoteFile('a', 'http://127.0.0.1:9/a')
    with pytest.raises(DataError, match='downloads are off; use --download'):
        fetch(tmp_path / 'root', 'set', (file,), download=False)
    (tmp_path / 'root').mkdir(mode=0o555)
    with pytest.raises(DataError, match='is read-only; fetch'):
        fetch(tmp_path / 'root', 'set', (file,))
    assert not any((tmp_path / 'root').iterdir())
