"""Bug log (f), streams: bytes untouched, nothing committed before content, nothing retried after it, no silent cut."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from tests.support.house import CHAT, HELLO, PAIR, UNHURRIED, Heard, alone, house, pair, run, vllm

# --- bytes ------------------------------------------------------------------------------------------------------------

SPELLINGS = {
    "B73": "a first chunk without choices (Azure)",
    "B74": "a choice without delta (Azure)",
    "B83": "every byte of 你 and 🌍 a chunk of its own",
    "B85": "comments between events",
    "B86": "a comment behind an id",
    "B89": "no [DONE] after the finish_reason",
    "crlf": "CRLF line ends",
    "tight-data": "no blank after data:",
    "keepalive-data": "a keep-alive as data",
    "lump": "all in one chunk",
    "long-event": "an event of a million bytes",
    "trailers": "a trailer behind the body",
    "until-close": "a body that ends by closing",
    "informational": "103 before the answer",
}


async def _spelt() -> dict[str, tuple[bytes, Heard, list[str]]]:
    """Per row: what the engine sends by itself, what came through AutoHedge, the verdicts. Both engines are alike."""
    found = {}
    config = UNHURRIED.replace(', "${TWO}"', "")
    async with house(config, one=vllm(name="x"), two=vllm(name="x")) as edge:
        for row in SPELLINGS:
            edge.one.set_faults(row)
            edge.two.set_faults(row)
            body = HELLO | {"stream": True, "stream_options": {"include_usage": True}}
            direct = await edge.client.post(edge.two.url + CHAT, json=body)
            before = edge.verdicts()
            heard = await edge.post(body)
            new = edge.verdicts()
            for old in before:
                new.remove(old)
            found[row] = direct.content, heard, new
    return found


@pytest.fixture(scope="module")
def spelt() -> dict[str, tuple[bytes, Heard, list[str]]]:
    return run(_spelt())


@pytest.mark.parametrize("row", SPELLINGS)
def test_unusual_bytes_pass_as_they_are(spelt: dict[str, tuple[bytes, Heard, list[str]]], row: str) -> None:
    """B73, B74, B83, B85, B86, B89 and legal spellings: the client gets the engine's bytes, and the answer counts as good."""
    direct, heard, verdicts = spelt[row]
    assert len(direct) > 1000
    assert heard.body == direct
    assert heard.status == 200
    assert not heard.cut
    assert verdicts == ["answer"]


def test_comments_keep_a_slow_start_alive() -> None:
    """B88: comments every 300 ms re-arm the stall of 1 s, the first token comes after 1.2 s; they arrive verbatim."""

    async def main() -> None:
        config = PAIR.replace("stall: 800ms", "stall: 1s").replace("hold: 3s", "hold: 60s")
        async with pair("B88=0.3,1.2", config=config) as edge:
            heard = await edge.stream()
            assert heard.attempts == 1
            assert heard.body.count(b": ping\n\n") == 4
            assert heard.body.endswith(b"data: [DONE]\n\n")
            assert edge.verdicts() == ["answer"]

    run(main())


def test_comments_alone_do_not_hold_a_client_for_ever() -> None:
    """B88: the wait for the first content has its own bound (timeouts.hold): then what came is passed on, comment by comment."""

    async def main() -> None:
        async with alone(
            "B88=0.05,2", config=PAIR.replace(', "${TWO}"', "").replace("hold: 3s", "hold: 200ms")
        ) as edge:
            heard = await edge.stream()
            assert 0.15 < heard.first < 1.5
            assert heard.last > 1.9
            assert edge.verdicts() == ["answer"]

    run(main())


# --- errors inside ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        pytest.param("B67=2", "vllm", id="B67"),
        pytest.param("B68=2", "vllm", id="B68"),
        pytest.param("B44=2", "tgi", id="B44"),
        pytest.param("error-event-flat", "sglang", id="d4-flat"),
    ],
)
def test_an_error_after_content_is_a_failure(fault: str, kind: str) -> None:
    """B67, B68, B44: an error in the stream, with and without [DONE], nested, flat or a string: it is passed, nothing is added
    behind it, nobody else is asked, and no success is recorded.
    """

    async def main() -> None:
        async with pair(fault, kind=kind, pace=100) as edge:
            heard = await edge.stream()
            assert heard.status == 200
            assert heard.text
            assert b"upstream_failed" not in heard.body
            assert re.search(rb'"(?:error|object)": ?(?:"error"|"Input validation|\{)', heard.body)
            assert edge.work == {"one": 1, "two": 0}
            assert "answer" not in edge.verdicts()

    run(main())


@pytest.mark.parametrize("row", ["B68", "B77", "B79", "empty-body", "html-200", "done-alone", "no-choices"])
def test_a_stream_that_never_becomes_an_answer_fails_over(row: str) -> None:
    """B68, B77, B79 and relatives: an error or silence before any content: the peer's stream, and only one beginning."""

    async def main() -> None:
        async with pair(row) as edge:
            heard = await edge.stream()
            assert heard.status == 200
            assert heard.attempts == 2
            assert heard.body.count(b'"role":"assistant"') == 1
            assert heard.errors == []
            assert heard.text.startswith(f"vllm@{edge.two.port} ")
            assert heard.body.endswith(b"data: [DONE]\n\n")

    run(main())


@pytest.mark.parametrize("row", ["B77", "B79"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"model": "m", "input": "hi", "stream": True}),
        ("/v1/messages", {"model": "m", "max_tokens": 9, "stream": True, "messages": HELLO["messages"]}),
    ],
    ids=["responses", "messages"],
)
def test_a_preamble_is_held_at_every_door(row: str, path: str, body: dict[str, Any]) -> None:
    """B77: response.created or message_start, then an error or silence: the client sees one preamble, the peer's."""

    async def main() -> None:
        async with pair(row) as edge:
            heard = await edge.post(body, path)
            assert heard.status == 200
            assert heard.attempts == 2
            begun = b"event: response.created\n" if "responses" in path else b"event: message_start\n"
            assert heard.body.count(begun) == 1
            assert b"event: error" not in heard.body
            assert f"vllm@{edge.two.port}".encode() in heard.body

    run(main())


def test_an_azure_preamble_is_no_content() -> None:
    """B73: the chunk with prompt_filter_results is held back with the role: after a stall the peer's stream is the only one."""

    async def main() -> None:
        async with pair("B73", "B79") as edge:
            heard = await edge.stream()
            assert heard.attempts == 2
            assert b"prompt_filter_results" not in heard.body

    run(main())


# --- cuts after content -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("B71", "ended without a finish_reason"),
        ("B80", "connection reset"),
        ("B82", "body cut short"),
        ("no-finish", "ended without a finish_reason"),
        ("stall-after", "stalled between chunks"),
    ],
)
def test_a_cut_after_content_is_told_in_band(row: str, said: str) -> None:
    """B71, B80, B82: an error event in the client's own form and no [DONE]; no second attempt, no text twice; a failure."""

    async def main() -> None:
        async with pair(row) as edge:
            heard = await edge.stream()
            assert heard.status == 200
            assert heard.attempts == 1
            assert not heard.cut
            assert said in heard.errors[-1]["message"]
            assert heard.body.endswith(b"}\n\n")
            assert b"[DONE]" not in heard.body
            assert heard.text.count("answers:") == 1
            assert edge.work["two"] == 0
            assert edge.verdicts() == ["sick"]

    run(main())


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
def test_a_cut_is_told_in_the_door_s_own_form(path: str) -> None:
    """B82: at /v1/messages and /v1/responses it is a named event, `event: error`."""
    body: dict[str, Any] = {"model": "m", "stream": True}
    body |= {"input": "hi"} if "responses" in path else {"messages": HELLO["messages"], "max_tokens": 9}

    async def main() -> None:
        async with alone("B82") as edge:
            heard = await edge.post(body, path)
            last = heard.events[-1]
            assert last.startswith(b"event: error\ndata: ")
            assert json.loads(last.partition(b"data: ")[2])["type"] == "error"

    run(main())


def test_a_cut_inside_of_an_event_ends_that_event_first() -> None:
    """B82: half an event has left already: a blank line, then the error, so that a reader does not glue them together."""

    async def main() -> None:
        async with alone("dribble", config=UNHURRIED.replace(', "${TWO}"', "") + "timeouts: {total: 1500ms}\n") as edge:
            heard = await edge.stream()
            assert heard.status == 200
            assert heard.events[-1].startswith(b'data: {"error":')
            assert "time for the whole request" in heard.errors[-1]["message"]
            assert edge.verdicts() == ["abandoned"]

    run(main())


@pytest.mark.parametrize("row", ["B80", "B82", "B94"])
def test_a_plain_answer_that_breaks_off_fails_over(row: str) -> None:
    """B80, B82, B94: nothing of a plain answer was sent, so the peer answers and the client sees nothing of it."""

    async def main() -> None:
        async with pair(row) as edge:
            heard = await edge.chat()
            assert (heard.status, heard.attempts, heard.cut) == (200, 2, False)
            assert heard.json["choices"]

    run(main())


def test_no_stream_is_broken_by_a_peer_s_failure() -> None:
    """B80: among twenty streams at once, those of the sick engine end with an error, those of the other are whole."""

    async def main() -> None:
        async with pair("B80", pace=200) as edge:
            heard = await asyncio.gather(*(edge.stream() for _ in range(20)))
            whole = [one for one in heard if one.body.endswith(b"[DONE]\n\n")]
            assert len(whole) == edge.two.completed[CHAT]
            assert all(one.errors == [] for one in whole)
            assert all(one.errors for one in heard if one not in whole)

    run(main())
