"""The server behind the listening socket, and the word that it is served."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.middleware.cors import CORSMiddleware

from autohedge.listening import server_config, tell_ready
from autohedge.settings.durations import Duration
from autohedge.settings.model import Cors, Server, Settings
from autohedge.wire.outbox import Outbox
from tests.support.vtime import run


@pytest.mark.parametrize(
    ("address", "told"), [(("127.0.0.1", 8000), "http://127.0.0.1:8000"), (("::1", 8000, 0, 0), "http://[::1]:8000")]
)
def test_the_address_is_told_when_requests_are_taken(address: tuple[Any, ...], told: str) -> None:
    async def main() -> list[str]:
        server = SimpleNamespace(started=False)
        heard: list[str] = []
        async with asyncio.TaskGroup() as group:
            group.create_task(tell_ready(cast("Any", server), address, heard.append))
            await asyncio.sleep(1)
            assert heard == []
            server.started = True
        return heard

    assert run(main()) == [told]


async def _edge(scope: Any, receive: Any, send: Any) -> None:
    """Stands for the edge."""


def test_nothing_stands_before_the_edge_unless_browsers_may_call() -> None:
    """Design 4.3: no middleware on the data path."""
    assert cast("Any", server_config(_edge, Settings(), Outbox()).app) is _edge
    asked = Settings(server=Server(cors=Cors(origins=("https://app.example",))))
    assert isinstance(server_config(_edge, asked, Outbox()).app, CORSMiddleware)


def test_all_connections_write_by_one_outbox() -> None:
    """Answers of one turn of the loop leave together, and with what goes to the engines (docs/adr/0009)."""
    box = Outbox()
    assert cast("Any", server_config(_edge, Settings(), box).http).keywords["outbox"] is box


def test_the_server_waits_as_long_as_the_settings_say() -> None:
    """`server.grace` in whole seconds, never less."""
    config = server_config(_edge, Settings(server=Server(grace=Duration(1.2))), Outbox())
    assert config.timeout_graceful_shutdown == 2
