"""Bodies of management requests: whole, bounded, JSON objects; what is wrong with one is a Problem.

It must not know: what a body means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import Request

from autohedge.core.problems import BadRequest, TooLarge

LONGEST = 512  # characters of a name in a body


async def body_of(request: Request, limit: int) -> bytes:
    """The whole body. Raises TooLarge at the first byte over `limit`."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise TooLarge(f"the request body is over {limit} bytes (server.max_body_bytes)")
    return bytes(body)


async def object_of(request: Request, limit: int) -> dict[str, Any]:
    """The JSON object in a body; {} for an empty one. Raises BadRequest and TooLarge."""
    return object_in(await body_of(request, limit))


def object_in(raw: bytes) -> dict[str, Any]:
    """The JSON object in these bytes; {} for none. Raises BadRequest."""
    try:
        body = json.loads(raw) if raw.strip() else {}
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON", code="invalid_json") from None
    if not isinstance(body, dict):
        raise BadRequest("the body is JSON, but not an object", code="invalid_body")
    return body


def text_in(body: Mapping[str, Any], key: str) -> str:
    """A name in a body, "" when it is absent or null. Raises BadRequest for anything else than a printable text."""
    value = body.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > LONGEST or not value.isprintable():
        raise BadRequest(f"{key}: a printable text of at most {LONGEST} characters is expected", param=key)
    return value
