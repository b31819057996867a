"""Counts what passes between SuperNodes and a SuperLink, to the byte, encrypted or not.

    python -m scripts.count_bytes 127.0.0.1:9000 127.0.0.1:8000 wire.json

SuperNodes connect to the first address, which passes everything on to the second. The file has the sums so far, up (to
the SuperLink) and down, and is renewed every second.
"""
import asyncio
import contextlib
import json
import os
import pathlib
import signal
import sys

CHUNK = 1 << 16


async def copy(reader, writer, totals, direction):
    """Passes on until one side has no more to say, and counts."""
    with contextlib.suppress(ConnectionError):     # a side that was killed
        while data := await reader.read(CHUNK):
            totals[direction] += len(data)
            writer.write(data)
            await writer.drain()
        writer.write_eof()
        return
    writer.close()


async def serve(listen, target, totals, ready=lambda server: None):
    """A proxy on `listen` for `target`, both (host, port), until it is cancelled."""
    async def connect(reader, writer):
        try:
            to_reader, to_writer = await asyncio.open_connection(*target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, to_writer, totals, 'up'), copy(to_reader, writer, totals, 'down'))
        for each in (writer, to_writer):
            each.close()

    server = await asyncio.start_server(connect, *listen)
    ready(server)
    async with server:
        await server.serve_forever()


async def main(listen, target, path):
    totals = {'up': 0, 'down': 0}
    serving = asyncio.create_task(serve(address(listen), address(target), totals))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    while not serving.done():
        await asyncio.wait([serving], timeout=1.0)
        temporary = pathlib.Path(f'{path}.tmp')
        temporary.write_text(json.dumps(totals))
        os.replace(temporary, path)
    if not serving.cancelled():
        serving.result()


def address(text):
    host, _, port = text.rpartition(':')
    return host, int(port)


if __name__ == '__main__':
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
