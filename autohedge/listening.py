"""The server behind the listening socket, and the word that it is served."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, cast

import uvicorn
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from autohedge.settings.model import Settings
from autohedge.wire.binding import BACKLOG
from autohedge.wire.outbox import Outbox
from autohedge.wire.server import EdgeProtocol, Times


def server_config(edge: ASGIApp, settings: Settings, outbox: Outbox) -> uvicorn.Config:
    """Uvicorn with our own protocol, and nothing of its own on the way of a request. Answers leave by `outbox`."""
    app = edge
    cors = settings.server.cors
    if cors.origins:
        app = CORSMiddleware(
            edge,
            allow_origins=cors.origins,
            allow_headers=cors.headers,
            allow_methods=cors.methods,
            max_age=int(cors.max_age),
        )
    return uvicorn.Config(
        app,
        http=cast(
            "type[asyncio.Protocol]", partial(EdgeProtocol, times=Times(body=settings.timeouts.body), outbox=outbox)
        ),
        ws="none",
        lifespan="off",
        loop="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=math.ceil(settings.server.grace),
    )


class Server(uvicorn.Server):
    """uvicorn's server that tells when it is asked to end, and goes on taking requests for `drain` seconds. Asked a second time
    it stops taking them at once.
    """

    def __init__(self, config: uvicorn.Config, on_exit: Callable[[], None], drain: float = 0.0) -> None:
        super().__init__(config)
        self._on_exit = on_exit
        self._drain = drain

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._on_exit()
        drain, self._drain = self._drain, 0.0
        if drain and self.started:
            loop = asyncio.get_running_loop()
            loop.call_soon_threadsafe(loop.call_later, drain, super().handle_exit, sig, frame)
        else:
            super().handle_exit(sig, frame)


async def tell_ready(server: uvicorn.Server, address: tuple[Any, ...], on_ready: Callable[[str], None]) -> None:
    """Call `on_ready` with the address as soon as requests are taken. `address` is the socket's name, read while it was open:
    a stop before anything is served closes it.
    """
    host, port = address[:2]
    while not server.started:  # noqa: ASYNC110 - uvicorn tells by this flag alone
        await asyncio.sleep(0.01)
    on_ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
