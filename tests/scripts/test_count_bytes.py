import asyncio
import json
import pathlib
import signal
import socket
import subprocess
import sys
import time

from scripts import count_bytes

ROOT = pathlib.Path(count_bytes.__file__).parent.parent


def test_everything_passes_and_is_counted():
    """A server that answers with twice what it was sent."""
    totals, sent = {'up': 0, 'down': 0}, bytes(range(256)) * 1000

    async def double(reader, writer):
        data = await reader.read()
        writer.write(2 * data)
        await writer.drain()
        writer.close()

    async def play():
        started = asyncio.Event()
        port = []

        def ready(server):
            port.append(server.sockets[0].getsockname()[1])
            started.set()

        target = await asyncio.start_server(double, '127.0.0.1', 0)
        proxy = asyncio.create_task(count_bytes.serve(('127.0.0.1', 0), target.sockets[0].getsockname(), totals, ready))
        await started.wait()
        reader, writer = await asyncio.open_connection('127.0.0.1', port[0])
        writer.write(sent)
        writer.write_eof()
        received = await reader.read()
        proxy.cancel()
        target.close()
        return received

    assert asyncio.run(play()) == 2 * sent
    assert totals == {'up': len(sent), 'down': 2 * len(sent)}


def test_sigterm_ends_it_and_leaves_the_sums(tmp_path):
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, '-m', 'scripts.count_bytes', f'127.0.0.1:{port}', '127.0.0.1:1',
                                tmp_path / 'wire.json'], cwd=ROOT)
    try:
        while not (tmp_path / 'wire.json').exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
    assert json.loads((tmp_path / 'wire.json').read_text()) == {'up': 0, 'down': 0}
