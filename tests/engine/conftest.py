"""Sample engines on real sockets, in a loop of their own: tests talk to them as any client would."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
import uvloop

from autohedge.engine.sample import SampleEngine
from tests.engine.calls import Serve
from tests.support.ports import free_port


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start engines by `serve(kind, model=..., ...)`; all are stopped at the end."""
    # uvloop as in service; asyncio's own (3.11, gh-109564) leaks a connection that came in the moment of a stop.
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    engines: list[SampleEngine] = []

    def start(kind: str, **settings: object) -> SampleEngine:
        engine = SampleEngine(kind, **{"name": "sample", "model": "m", "port": free_port(), **settings})  # type: ignore[arg-type]
        asyncio.run_coroutine_threadsafe(engine.start(), loop).result(60)
        engines.append(engine)
        return engine

    yield start
    for engine in engines:
        asyncio.run_coroutine_threadsafe(engine.stop(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    loop.close()
