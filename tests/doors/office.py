"""The admin API over a desk, asked in memory: no socket, any client address."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast

import httpx
from fastapi import FastAPI

from autohedge.doors.admin import AdminWorld, admin_routes
from autohedge.doors.status import Standing, status_app
from autohedge.rules.standing import Wish
from autohedge.state.resilient import Shared
from autohedge.watchers.learning import Learner
from tests.support.desk import Counter, Desk, Shelf
from tests.support.world import backend, lesson, model

HERE = ("127.0.0.1", 50_000)


class Lost(Shelf):
    """A shared state that may be lost."""

    lost = ""
    lost_since: float | None = None


class Office:
    """Two replicas of m behind `pair`, one model with a slash behind `cloud`. `wrong` is what a reload finds."""

    def __init__(self, config: str = "", **tokens: int) -> None:
        self.desk = Desk(config, **tokens)
        self.desk.add(
            "one", backend("pair", "one:1", "two:1", origins=("one",)), *[lesson(model("m", context=1000))] * 2
        )
        self.desk.add("two", backend("cloud", "c:1/base", origins=("two",)), lesson(model("org/big", "big")))
        self.learner, self.shared = Counter(), Lost()
        self.desk.tools.learner = cast("Learner", self.learner)
        self.desk.tools.shared = cast("Shared", self.shared)
        self.wrong: tuple[str, ...] = ()
        self.forced: list[tuple[str, Wish, str | None]] = []
        world = AdminWorld(
            reload=lambda: self.wrong,
            config=lambda: "server:\n  listen: x\n",
            force=self._force,
            alerts=lambda: {"lost": "mail: nobody listens", "dropped": 2},
        )
        self.app: FastAPI = status_app(self.desk.tools, Standing("1"), lambda: b"", lambda: b"id-1")
        self.app.include_router(admin_routes(self.desk.tools, world))

    def _force(self, replica: str, wish: Wish, model: str | None) -> None:
        self.forced.append((replica, wish, model))
        self.desk.tools.health.force(replica, wish, model)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        client: tuple[str, int] = HERE,
        base: str = "http://127.0.0.1:8000",
    ) -> httpx.Response:
        """One request; a body that is no bytes is sent as JSON."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()

        async def main() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, client=client)
            async with httpx.AsyncClient(transport=transport, base_url=base) as asker:
                return await asker.request(method, path, content=content, headers=headers)

        return asyncio.run(main())

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        answer = self.ask("POST", path, body, headers)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str, str]:
        """Status, code and message of a refusal in the envelope."""
        answer = self.ask(method, path, body)
        error = answer.json()["error"]
        return answer.status_code, error["code"], error["message"]
