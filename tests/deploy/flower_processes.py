"""SuperLink, SuperNodes and runs as processes on loopback, all of which end with the test."""
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import uuid

import virtual_tf

ROOT = pathlib.Path(virtual_tf.__file__).parent.parent
APP = ROOT / 'virtual_tf' / 'deploy' / 'app'
MARK = 'VIRTUAL_TF_STARTED_BY'
BIN = pathlib.Path(sys.executable).parent
QUIET = {'FLWR_TELEMETRY_ENABLED': '0', 'FLWR_DISABLE_UPDATE_CHECK': '1', 'RAY_USAGE_STATS_ENABLED': '0',
         'FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION': '1', 'RAY_ENABLE_UV_RUN_RUNTIME_ENV': '0'}


class Local:
    """Processes with one Flower home; use as a context."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self._processes = []
        (folder / 'home').mkdir(parents=True)
        self.environment = os.environ | QUIET | {
            'FLWR_HOME': str(folder / 'home'), 'PYTHONPATH': f'{ROOT}:{ROOT / "tests" / "deploy"}',
            'PATH': f'{BIN}:{os.environ["PATH"]}', 'TF_CPP_MIN_LOG_LEVEL': '3'}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._processes:
            self.kill(process)
            process.wait()

    def kill(self, process):
        """SIGKILL to a process and all that it has started, until none is left."""
        while left := started_by(process):
            for number in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            process.poll()     # a child that has ended is there until it is asked for
            time.sleep(0.05)

    def left(self):
        return [number for process in self._processes for number in started_by(process)]

    def start(self, name, *command):
        mark = uuid.uuid4().hex
        with open(self.folder / f'{name}.log', 'ab') as log:
            process = subprocess.Popen([BIN / command[0], *map(str, command[1:])], stdout=log, stderr=log,
                                       env=self.environment | {MARK: mark}, cwd=self.folder, start_new_session=True)
        process.mark = f'{MARK}={mark}'.encode()
        self._processes.append(process)
        return process

    def make_keys(self, clients):
        subprocess.run([ROOT / 'scripts' / 'make_keys.sh', self.folder / 'keys', str(clients)], check=True)
        return self.folder / 'keys'

    def superlink(self, *more, keys=None):
        """With keys, over TLS and for SuperNodes with registered keys alone."""
        connection = f'root-certificates = "{keys / "ca.crt"}"' if keys else 'insecure = true'
        more = more or ('--insecure',)
        if keys:
            more = ('--ssl-ca-certfile', keys / 'ca.crt', '--ssl-certfile', keys / 'server.pem', '--ssl-keyfile',
                    keys / 'server.key', '--enable-supernode-auth')
        (self.folder / 'home' / 'config.toml').write_text(
            f'[superlink]\ndefault = "local"\n\n[superlink.local]\naddress = "127.0.0.1:{self.port}"\n{connection}\n')
        process = self.start('superlink', 'flower-superlink', *more, '--host', '127.0.0.1',
                             '--port', self.port, '--disable-runtime-dependency-installation')
        while socket.socket().connect_ex(('127.0.0.1', self.port)):
            assert process.poll() is None, self.log('superlink')
            time.sleep(0.1)
        return process

    def supernode(self, client, *more, **config):
        config = {'partition-id': client, 'state-dir': str(self.folder / 'clients' / str(client))} | config
        text = ' '.join(f'{key.replace("_", "-")}={toml(value)}' for key, value in config.items())
        return self.start(f'supernode-{client}', 'flower-supernode', *(more or ['--insecure']), '--superlink',
                          f'127.0.0.1:{self.port}', '--host', '127.0.0.1', '--port', free_port(), '--node-config', text)

    def register(self, client, keys):
        process = self.start('register', 'flwr', 'supernode', 'register', keys / f'client-{client}.pub', 'local')
        assert process.wait() == 0, self.log('register')

    def run(self, app=APP, more=(), **config):
        config = {'output_dir': str(self.folder / 'server'), 'state_dir': str(self.folder / 'clients')} | config
        text = ' '.join(f'{key}={toml(value)}' for key, value in config.items())
        return self.start('run', 'flwr', 'run', app, 'local', '--run-config', text, '--stream', *more)

    def finish(self, run, seconds):
        """Waits for the end of a run, and that it ended well."""
        summary = self.folder / 'server' / 'summary.json'
        try:
            run.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f'no end after {seconds} s\n{self.log("run")}') from None
        assert summary.exists(), self.log('run')

    def log(self, name):
        return (self.folder / f'{name}.log').read_text()[-4000:]


def started_by(process):
    """Ids of a process and of all that it has started, by what they inherit: Flower makes sessions of its own."""
    found = []
    for path in pathlib.Path('/proc').glob('[0-9]*'):
        with contextlib.suppress(OSError):
            if process.mark in (path / 'environ').read_bytes().split(b'\0'):
                found.append(int(path.name))
    return found


def toml(value):
    return str(value).lower() if isinstance(value, bool | int | float) else f'"{value}"'


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def listeners(processes):
    """Addresses on which these processes and what they started listen, from /proc."""
    inodes = set()
    for number in (number for process in processes for number in started_by(process)):
        with contextlib.suppress(OSError):
            links = [os.readlink(link) for link in pathlib.Path('/proc', str(number), 'fd').iterdir()]
            inodes |= {link[8:-1] for link in links if link.startswith('socket:[')}
    rows = [line.split() for name in ('tcp', 'tcp6')
            for line in pathlib.Path('/proc/net', name).read_text().splitlines()[1:]]
    return {row[1].split(':')[0] for row in rows if row[3] == '0A' and row[9] in inodes}
