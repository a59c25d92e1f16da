"""The question "where would this request go?": three ways to give the request, one answer (explaining.py).

- POST /admin/explain                with {"door": "chat", "body": {...}}; `body` may be text, to try what is no JSON
- POST /admin/explain?door=chat      with the body of a request as it is; without ?door= it is guessed
- POST /admin/explain/v1/...         with a request as it is, /admin/explain put before its path

Headers that matter to a plan (X-AutoHedge-No-Fallback) are those of the question.

It must not know: who may ask.
"""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request

from autohedge.call import Call
from autohedge.core.problems import BadRequest, NotFound
from autohedge.core.types import Door
from autohedge.doors.asked import body_of, object_in, text_in
from autohedge.doors.openai import DOORS, Entry, find
from autohedge.explaining import Explainer
from autohedge.tools import Tools

PATH = "/admin/explain"
GUESSES = {"questions": Door.SYSTEMONE, "messages": Door.CHAT, "prompt": Door.COMPLETIONS, "input": Door.EMBEDDINGS}


def add_explain(router: APIRouter, tools: Tools) -> None:
    """The paths of the question; `router` stands at /admin and asks who may."""
    explainer = Explainer(tools)

    @router.post("/explain")
    async def explain(request: Request, door: str = "") -> dict[str, Any]:
        """{"door": "chat", "body": {...}}, or the body of a request as it is; its door is told by ?door= or guessed."""
        raw = await body_of(request, tools.settings.server.max_body_bytes)
        given = object_in(raw)
        if "body" in given and "door" in given:
            door, inner = text_in(given, "door"), given["body"]
            raw = (inner if isinstance(inner, str) else json.dumps(inner)).encode("utf-8", "surrogatepass")
            return await explainer(_call(request, tools, _entry(door), raw))
        guess = next((found for key, found in GUESSES.items() if key in given), Door.CHAT)
        return await explainer(_call(request, tools, _entry(door or guess.value), raw))

    @router.post("/explain/{path:path}")  # noqa: FAST003 - read raw: an encoded slash in a model's name stays
    async def explain_path(request: Request) -> dict[str, Any]:
        """A request as it is, with /admin/explain before its path."""
        path = request.scope["raw_path"].decode("latin-1").removeprefix(PATH)
        entry = find(path)
        if entry is None:
            raise NotFound(f"no such door: {path[:200]}")
        encoding = request.headers.get("content-encoding", "").strip().lower()
        call = _call(request, tools, entry, await body_of(request, tools.settings.server.max_body_bytes), encoding)
        call.media = request.headers.get("content-type", "")
        return await explainer(call)


def _entry(door: str) -> Entry:
    known = {kind.value: kind for kind in Door}
    if door not in known:
        raise BadRequest(f"door: {door[:80]!r} is none of {', '.join(known)}", param="door")
    kind = known[door]
    return Entry(kind, next((path for path, one in DOORS.items() if one is kind), ""))


def _call(request: Request, tools: Tools, entry: Entry, body: bytes, encoding: str = "") -> Call:
    now = tools.clock()
    return Call(
        door=entry.door,
        target=entry.target,
        query=b"",
        headers=request.scope["headers"],
        forwarded=[],
        body=body,
        encoding="" if encoding == "identity" else encoding,
        id=b"",
        started=now,
        deadline=now + tools.settings.timeouts.total,
        model=entry.model,
        media="application/json",
    )
