"""What Swarm's ingress does, where the kernel has no IPVS: connections to one published port are spread over the healthy tasks
of a service. It runs in a container on the overlay network, from this very file.

    python splitter.py PORT NAME TARGET_PORT

It asks the engine's own name server for NAME (tasks.<service>) at each connection. A task enters and leaves that answer in the
same step in which it enters and leaves the ingress's table, so callers see what callers of a published port see; no more, for
it neither tries a second task nor looks at what it carries.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
from contextlib import suppress


async def main(port: int, name: str, target: int) -> None:
    turn = itertools.count()
    loop = asyncio.get_running_loop()

    async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await source.read(65536):
                sink.write(piece)
                await sink.drain()
            sink.write_eof()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            found = await loop.getaddrinfo(name, target, family=socket.AF_INET, type=socket.SOCK_STREAM)
            addresses = sorted({str(one[4][0]) for one in found})
            answer, request = await asyncio.open_connection(addresses[next(turn) % len(addresses)], target)
        except OSError as error:
            print(f"{name}: {error}", flush=True)
            writer.transport.abort()
            return
        await asyncio.gather(carry(reader, request), carry(answer, writer))
        writer.transport.abort()
        request.transport.abort()

    server = await asyncio.start_server(serve, "0.0.0.0", port)
    print("READY", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
