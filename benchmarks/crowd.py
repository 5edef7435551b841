"""Clients that hold connections to a server and ask nothing: ``python -m benchmarks.crowd HOST PORT SILENT SLOW``.

Silent ones send nothing; slow ones send a header that never ends, a byte each half second. One that is closed connects
again after a second. Prints a line when all have connected for the first time, and runs until it is killed.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from itertools import chain, repeat

BEGIN = b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
BYTE_SECONDS = 0.5
AGAIN_SECONDS = 1.0


async def hold(host: str, port: int, connected: asyncio.Semaphore, *, is_slow: bool) -> None:
    """Hold one connection for ever."""
    is_first = True
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
        except OSError:
            await asyncio.sleep(AGAIN_SECONDS)
            continue
        if is_first:
            connected.release()
            is_first = False
        try:
            await (_trickle(reader, writer) if is_slow else reader.read())
        except OSError:
            pass
        finally:
            writer.close()
        await asyncio.sleep(AGAIN_SECONDS)


async def _trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for byte in chain((BEGIN[number : number + 1] for number in range(len(BEGIN))), repeat(b"x")):
        writer.write(byte)
        try:
            await asyncio.wait_for(reader.read(), BYTE_SECONDS)
        except TimeoutError:
            continue
        return


async def _main(host: str, port: int, silent: int, slow: int) -> None:
    connected = asyncio.Semaphore(0)
    holding = [
        asyncio.create_task(hold(host, port, connected, is_slow=number < slow)) for number in range(silent + slow)
    ]
    for _ in holding:
        await connected.acquire()
    print("connected", flush=True)
    await asyncio.gather(*holding)


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(_main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
