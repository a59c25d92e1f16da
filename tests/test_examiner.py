"""Where a body is examined: small ones here, heavy ones in a helper process that may die."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from autohedge import examiner as module
from autohedge.call import Call
from autohedge.core.problems import BadRequest, InternalError, TooLarge
from autohedge.core.types import Door, Kind
from autohedge.examiner import COMPRESSED_HERE, PATIENCE, Examiner
from autohedge.payloads.reading import Bounds, Examined, Reading, cost
from autohedge.rules.keys import key_of, state_key

HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def call(body: bytes, encoding: str = "") -> Call:
    return Call(Door.CHAT, "/v1/chat/completions", b"", [], [], body, encoding, b"", 0.0, 300.0)


@contextmanager
def made(*kinds: Kind, bounds: Bounds | None = None) -> Iterator[Examiner]:
    one = Examiner(bounds or Bounds(), lambda: frozenset(kinds))
    try:
        yield one
    finally:
        one.close()


def heavy(**fields: Any) -> bytes:
    """A body whose structure would hold the interpreter for too long."""
    body = json.dumps(HELLO | {"x": [[0]] * 300_000} | fields).encode()
    assert cost(body) > PATIENCE
    return body


def test_a_small_body_is_read_here() -> None:
    """A task switch costs more than a 1 KB parse: no helper is started for it."""
    with made() as one:
        reading = one.here(call(json.dumps(HELLO).encode()))
        assert isinstance(reading, Reading)
        assert reading.ask.model == "m"
        assert one._helper is None


def test_images_beside_a_decision_are_not_weighed() -> None:
    """8 MiB of a photo in a multipart body are not parsed; its JSON is, and decides where."""
    photo = b"--x\r\nContent-Disposition: form-data; name=photo\r\n\r\n" + bytes(range(256)) * (1 << 15) + b"\r\n"
    for json_text, here in ((b'{"model":"m"}', True), (heavy(), False)):
        part = b"--x\r\nContent-Disposition: form-data; name=request\r\n\r\n" + json_text + b"\r\n--x--\r\n"
        asked = replace(call(photo + part), door=Door.SYSTEMONE, media="multipart/form-data; boundary=x")
        with made() as one:
            reading = one.here(asked)
        assert (reading is not None) is here
        if reading is not None:
            assert reading.ask.model == "m"


def test_a_long_text_is_read_here() -> None:
    """A 4 MiB string is a few milliseconds, whatever its size suggests."""
    with made() as one:
        body = json.dumps(HELLO | {"messages": [{"role": "user", "content": "word " * 800_000}]}).encode()
        assert one.here(call(body)) is not None


def test_a_problem_is_raised_on_the_spot() -> None:
    with made() as one, pytest.raises(BadRequest):
        one.here(call(b"{"))


def test_a_large_compressed_body_is_not_decoded_here() -> None:
    """What it unpacks to is not known: small in, long to read."""
    noise = os.urandom(COMPRESSED_HERE * 2)
    with made() as one:
        assert one.here(call(gzip.compress(noise), "gzip")) is None
        assert one.here(call(gzip.compress(json.dumps(HELLO).encode()), "gzip")) is not None


def test_a_heavy_body_is_read_elsewhere() -> None:
    """The ask without the parsed body, the findings for the kinds that are known now; the helper is kept for the next one."""

    async def main(one: Examiner) -> None:
        body = call(heavy(temperature="hot"))
        assert one.here(body) is None
        examined = await one.elsewhere(body)
        assert isinstance(examined, Examined)
        assert (examined.ask.model, examined.ask.obj) == ("m", None)
        assert examined.findings(Kind.VLLM)
        assert set(examined.found) == {Kind.AUTO, Kind.VLLM}
        helper = one._helper
        both = await asyncio.gather(one.elsewhere(call(heavy())), one.elsewhere(call(heavy(model="n"))))
        assert [other.ask.model for other in both] == ["m", "n"]
        assert one._helper is helper
        with pytest.raises(BadRequest) as raised:  # problems cross the border whole
            await one.elsewhere(call(heavy() + b"x"))
        assert raised.value.code == "invalid_json"

    with made(Kind.VLLM) as one:
        asyncio.run(main(one))


def test_a_bomb_is_refused_elsewhere() -> None:
    async def main(one: Examiner) -> None:
        with pytest.raises(TooLarge):
            await one.elsewhere(call(gzip.compress(b" " * 4_000_000), "gzip"))

    with made(bounds=Bounds(max_decoded=1_000_000)) as one:
        asyncio.run(main(one))


def _die(*_job: Any) -> None:
    os._exit(1)


def test_a_body_that_kills_the_helper_is_not_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice in a fresh process, then it is refused: this process is not to be the third. The next body is served."""

    async def main(one: Examiner) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(module, "examine_all", _die)
            with pytest.raises(InternalError):
                await one.elsewhere(call(heavy()))
        assert one._helper is None
        assert (await one.elsewhere(call(heavy()))).ask.model == "m"

    with made() as one:
        asyncio.run(main(one))


def test_closing_twice_is_closing_once() -> None:
    with made() as one:
        one.close()
        one.close()


def test_a_body_that_was_read_elsewhere_brings_its_key_along() -> None:
    """The ring needs what only the body says; the parsed body itself stays in the helper."""
    body = json.dumps({"model": "dex", "state": "a document", "questions": {}, "x": [[0]] * 300_000}).encode()
    asked = call(body)
    asked.door = Door.SYSTEMONE

    async def main() -> Examined:
        with made(Kind.SGLANG) as one:
            assert one.here(asked) is None
            return await one.elsewhere(asked)

    found = asyncio.run(main())
    assert found.ask.obj is None
    assert found.ask.key == key_of(found.ask) == state_key("a document")
