"""Journeys of System One requests that are refused, or let through, before a worker sees them."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import zstandard
from typesafe_sdk._core.multipart import Part, encode_multipart

from autohedge.engine.sample import SampleEngine
from tests.payloads.test_systemone import BAD
from tests.support.canned import Canned
from tests.support.house import SERVER, TIMES, Edge, Heard, eventually, house, run

PATH = "/v1/systemone"
BODY: dict[str, Any] = {
    "model": "dex",
    "state": "I was charged twice.",
    "questions": {"q": {"type": "noul", "instructions": "Is it about money?"}},
}
RAW = json.dumps(BODY).encode()
SEED = {"model": "dex", "state": "x", "questions": {"q.1": {"question": "Tone?", "choices": ["a", "b"]}}}


def behind(kind: str, more: str = "", limits: str = "{}") -> str:
    return f"""{SERVER}{TIMES}{more}
upstream_registry:
  w1: {{host: "${{ONE}}", models: [dex, m, b], provider: {kind}, model_limits: {limits}}}
"""


@asynccontextmanager
async def worker(config: str, path: Path | None = None) -> AsyncIterator[tuple[Edge, Canned]]:
    one = Canned()
    async with house(config, path, one=one.engine) as edge:
        yield edge, one


def refused(heard: Heard, status: int, code: str) -> Any:
    """The body of a refusal in both shapes: eidex's envelope, and FastAPI's list."""
    assert heard.status == status
    assert heard.headers["x-smg-error-code"] == code
    body = heard.json
    assert body["error"]["code"] == code
    assert body["detail"][0]["type"] == code
    assert body["detail"][0]["msg"] in body["error"]["message"]
    return body


def test_a_refusal_satisfies_every_client() -> None:
    """E41, E42: `error.message` for the SDKs, `detail` for FastAPI's clients; all findings at once; no worker was asked."""

    async def main() -> None:
        async with worker(behind("sglang")) as (edge, one):
            body = refused(await edge.post(SEED, PATH), 400, "unknown_field")
            assert body["error"] == {
                "type": "Bad Request",
                "code": "unknown_field",
                "message": "'question' is not a field, use 'instructions' (and 2 more)",
                "param": "questions.q.1.question",
            }
            assert [entry["loc"] for entry in body["detail"]] == [
                ["body", "questions", "q.1", "question"],
                ["body", "questions", "q.1", "choices"],
                ["body", "questions", "q.1", "type"],
            ]
            assert one.requests == []

    run(main())


@pytest.mark.parametrize("kind", sorted({row[1].value for row in BAD}))
def test_the_bad_ones_through_the_door(kind: str) -> None:
    """Systemone facts 11: each is a 400 with its code for a server of its kind; the helper process says the same as this one."""

    async def main() -> None:
        async with worker(behind(kind)) as (edge, one):
            for _, of, body, code, _, said in BAD:
                if of.value != kind:
                    continue
                heard = await edge.post(body if isinstance(body, bytes) else json.dumps(body).encode(), PATH)
                assert heard.status == 400, heard.body
                told = [entry["msg"] for entry in heard.json["detail"] if entry["type"] == code]
                assert any(said.split(", model m")[0] in message for message in told), heard.body
                assert heard.json["error"]["message"].split(" (and")[0] == heard.json["detail"][0]["msg"]
            assert one.requests == []

    run(main())


def test_the_status_may_be_422() -> None:
    """As TypeSafe and SGLang answer, for clients that look at the number."""

    async def main() -> None:
        async with worker(behind("sglang", "systemone: {validation_status: 422}")) as (edge, _):
            body = refused(await edge.post(SEED, PATH), 422, "unknown_field")
            assert body["error"]["type"] == "Unprocessable Entity"
            refused(await edge.post(b"{", PATH), 422, "invalid_json")

    run(main())


def test_validation_off_is_eidex(tmp_path: Path) -> None:
    """E42, E43, facts 8.10: nothing is looked at; what is no JSON reaches the worker byte for byte, whose answer stands. A change
    of the setting is heard without a restart.
    """
    path = tmp_path / "autohedge.yaml"
    config = behind("sglang")

    async def main() -> None:
        async with worker(config, path) as (edge, one):
            refused(await edge.post(SEED, PATH), 400, "unknown_field")
            path.write_text(config + "systemone: {validate: off}\n")
            edge.house.reload()
            one.status, one.body = 422, b'{"detail":[]}'
            odd: tuple[tuple[bytes, dict[str, str]], ...] = (
                (json.dumps(SEED).encode(), {}),
                (b'{"model":"dex",', {}),
                (b"\xff\x00", {}),
                (b"no gzip", {"content-encoding": "gzip"}),
                (RAW, {"content-encoding": "br"}),
                (b"x", {"content-type": "multipart/form-data"}),
                (b"", {}),
            )
            for raw, headers in odd:
                heard = await edge.post(raw, PATH, headers)
                assert (heard.status, heard.body) == (422, b'{"detail":[]}')
                assert one.requests[-1][1] == raw

    run(main())


def test_invalid_json_tells_the_place() -> None:
    """E43: eidex's table says 400, its text says nothing; here line, column and byte are told."""

    async def main() -> None:
        async with worker(behind("systemone")) as (edge, one):
            body = refused(await edge.post(b'{"model":"dex",', PATH), 400, "invalid_json")
            assert "line 1, column 16 (byte 15)" in body["error"]["message"]
            assert body["detail"][0]["loc"] == ["body"]
            assert one.requests == []

    run(main())


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_compressed_body_is_checked_and_forwarded_as_it_came(encoding: str) -> None:
    """Fact 0.6: the worker gets the compressed bytes and the header that says so."""
    pack: Callable[[bytes], bytes] = gzip.compress if encoding == "gzip" else zstandard.compress

    async def main() -> None:
        async with worker(behind("typesafe")) as (edge, one):
            headers = {"content-encoding": encoding}
            raw = pack(RAW)
            assert (await edge.post(raw, PATH, headers)).status == 200
            head, body = one.requests[-1]
            assert body == raw
            assert f"\r\ncontent-encoding: {encoding}\r\n".encode() in head
            refused(await edge.post(pack(json.dumps(SEED).encode()), PATH, headers), 400, "unknown_field")
            refused(await edge.post(RAW, PATH, headers), 400, "invalid_encoding")
            assert len(one.requests) == 1

    run(main())


def test_brotli_is_a_415() -> None:
    """Systemone facts 11, 44."""

    async def main() -> None:
        async with worker(behind("typesafe")) as (edge, _):
            body = refused(await edge.post(RAW, PATH, {"content-encoding": "br"}), 415, "unsupported_encoding")
            assert body["error"]["type"] == "Unsupported Media Type"

    run(main())


def test_a_multipart_body_is_checked_by_its_request_and_forwarded_as_it_came() -> None:
    """Fact 0.6: images come as parts beside the JSON."""
    asset = {"<i>": {"type": "image", "part": "asset-0"}}
    image = Part("asset-0", "image/png", b"\x89PNG\r\n\x1a\n" * 500, "asset-0")

    async def main() -> None:
        async with worker(behind("typesafe")) as (edge, one):
            good = json.dumps(BODY | {"assets": asset}).encode()
            media, raw = encode_multipart((Part("request", "application/json", good), image))
            assert (await edge.post(raw, PATH, {"content-type": media})).status == 200
            head, body = one.requests[-1]
            assert body == raw
            assert f"\r\ncontent-type: {media}\r\n".encode() in head
            media, raw = encode_multipart((Part("request", "application/json", json.dumps(SEED).encode()), image))
            refused(await edge.post(raw, PATH, {"content-type": media}), 400, "unknown_field")
            refused(await edge.post(raw, PATH, {"content-type": "multipart/form-data"}), 400, "invalid_body")
            assert (await edge.post(raw, "/v1/chat/completions", {"content-type": media})).status == 415
            assert len(one.requests) == 1

    run(main())


def test_a_missing_model_is_told_with_those_that_there_are() -> None:
    """Systemone facts 11, 5."""

    async def main() -> None:
        async with worker(behind("sglang")) as (edge, _):
            refused(await edge.post({**BODY, "model": None}, PATH), 400, "invalid_type")
            without = {key: value for key, value in BODY.items() if key != "model"}
            body = refused(await edge.post(without, PATH), 400, "missing_field")
            assert body["error"]["message"].startswith("model is required (string); models served here: b, dex, m")

    run(main())


def test_a_stream_flag_is_answered_with_a_warning() -> None:
    """Systemone facts 11, 35: the answer is whole, and a header says that nothing streams here."""

    async def main() -> None:
        async with worker(behind("sglang")) as (edge, _):
            heard = await edge.post(BODY | {"stream": True}, PATH)
            assert heard.status == 200
            assert heard.headers["x-autohedge-warning"] == "/v1/systemone never streams; stream is ignored"
            assert "x-autohedge-warning" not in (await edge.post(BODY, PATH)).headers

    run(main())


def test_a_content_type_that_the_worker_refuses_is_a_415() -> None:
    """Systemone facts 11, 43: SGLang reads application/json alone; a server of unknown make may read anything."""

    async def main() -> None:
        for kind, status in (("sglang", 415), ("systemone", 200)):
            async with worker(behind(kind)) as (edge, _):
                heard = await edge.post(RAW, PATH, {"content-type": "text/plain"})
                assert heard.status == status
                if status == 415:
                    assert refused(heard, 415, "unsupported_media_type")["detail"][0]["loc"] == [
                        "header",
                        "content-type",
                    ]

    run(main())


def test_limits_per_model_and_for_all() -> None:
    """max_questions of one backend; max_options of the whole door, which also holds where a backend takes more."""
    many = BODY | {"questions": {str(i): BODY["questions"]["q"] for i in range(4)}}
    wide = BODY | {"questions": {"q": {"type": "choice", "instructions": "x", "criteria": dict.fromkeys("abcdef")}}}
    config = behind("sglang", "systemone: {limits: {max_options: 5}}", "{max_questions: 3, max_options: 9}")

    async def main() -> None:
        async with worker(config) as (edge, one):
            body = refused(await edge.post(many, PATH), 400, "too_many_questions")
            assert "model dex on w1 takes at most 3 (model_limits.max_questions in" in body["error"]["message"]
            body = refused(await edge.post(wide, PATH), 400, "too_many_options")
            assert "this server takes at most 5 (systemone.limits.max_options)" in body["error"]["message"]
            told = (await edge.post(wide, "/admin/explain" + PATH)).json["outcome"]
            assert told["message"] == body["error"]["message"]
            assert one.requests == []
            assert (await edge.post(BODY, PATH)).status == 200

    run(main())


def test_what_one_of_two_takes_goes_there() -> None:
    """A key that SGLang refuses: the server of unknown make gets the request, whoever stands first."""
    config = f"""{SERVER}{TIMES}
upstream_registry:
  strict: {{host: "${{ONE}}", model: dex, provider: sglang, priority: 1}}
  lax: {{host: "${{TWO}}", model: dex, provider: systemone}}
"""
    odd = BODY | {"questions": {"q": BODY["questions"]["q"] | {"weight": 2}}}

    async def main() -> None:
        one, two = Canned(), Canned()
        async with house(config, one=one.engine, two=two.engine) as edge:
            heard = await edge.post(odd, PATH)
            assert (heard.status, heard.backend) == (200, "lax")
            assert (await edge.post(BODY, PATH)).backend == "strict"

    run(main())


def test_the_options_that_a_model_takes_are_learned() -> None:
    """llama.cpp tells its bound when it refuses; the next request over it is refused here, with where that was learned."""
    wide = BODY | {
        "questions": {"q": {"type": "choice", "instructions": "x", "criteria": {str(i): None for i in range(60)}}}
    }
    said = b'{"error":{"code":400,"message":"questions.q: too many options (60), this model supports at most 52","type":"invalid_request_error"}}'

    async def main() -> None:
        async with worker(behind("llamacpp")) as (edge, one):
            one.status, one.body = 400, said
            assert (await edge.post(wide, PATH)).body == said
            body = refused(await edge.post(wide, PATH), 400, "too_many_options")
            assert "takes at most 52 (named by the engine when it refused a request" in body["error"]["message"]
            assert len(one.requests) == 1

    run(main())


def test_a_state_that_is_longer_than_the_window() -> None:
    """Systemone facts 11, 41: counted by the engine, never guessed from bytes; a text that only might be too long is asked about
    and goes on.
    """

    async def main() -> None:
        async with house(behind("sglang"), one=SampleEngine("sglang", model="dex", context=300)) as edge:
            await eventually(lambda: "dex" in edge.house.registry.snapshot.routes)
            long = await edge.post(BODY | {"state": "many words and no end " * 400}, PATH)
            body = refused(long, 400, "context_length_exceeded")
            assert "state: the state alone of" in body["error"]["message"]
            assert "does not fit into the 300 that model dex on w1 accepts (max_model_len" in body["error"]["message"]
            assert body["detail"][0]["loc"] == ["body", "state"]
            assert edge.one.received[PATH] == 0
            assert (await edge.post(BODY | {"state": "a few words " * 30}, PATH)).status == 200

    run(main())


def test_a_heavy_body_is_refused_by_the_helper_process_alike() -> None:
    """2,000 questions of which one is wrong: read elsewhere, told as here."""
    questions = {f"q{i}": BODY["questions"]["q"] | {"criteria": {"true": "x", "false": "y"}} for i in range(9000)}
    questions["q8999"] = {"type": "noul"}

    async def main() -> None:
        async with house(behind("sglang"), one=SampleEngine("sglang", model="dex")) as edge:
            await eventually(lambda: "dex" in edge.house.registry.snapshot.routes)
            body = refused(await edge.post(BODY | {"questions": questions}, PATH), 400, "nothing_to_decide")
            assert body["detail"][0]["loc"] == ["body", "questions", "q8999"]

    run(main())


def test_refusals_are_counted_by_what_was_wrong_and_not_by_what_clients_call_it() -> None:
    async def main() -> None:
        async with worker(behind("sglang")) as (edge, _):
            for name in ("a", "b.c", "d"):
                await edge.post(BODY | {"questions": {name: {"type": "noul"}}}, PATH)
            lines = (await edge.client.get(edge.url + "/metrics")).text.splitlines()
            found = [line for line in lines if line.startswith("autohedge_rejects_total") and "questions" in line]
            labels = 'code="nothing_to_decide",model="dex",param="questions.*"'
            assert found == [f"autohedge_rejects_total{{{labels}}} 3.0"]

    run(main())


def test_explain_says_the_same() -> None:
    """/admin/explain before the path: the refusal, word for word; with validation off there is none."""

    async def main() -> None:
        for more, status in (("", 400), ("systemone: {validate: off}\n", None)):
            async with worker(behind("sglang", more)) as (edge, _):
                good = (await edge.post(BODY, "/admin/explain" + PATH)).json["outcome"]
                assert good["sent_to"]["backend"] == "w1"
                told = (await edge.post(SEED, "/admin/explain" + PATH)).json["outcome"]
                assert told.get("status") == status
                if status:
                    assert told["message"] == (await edge.post(SEED, PATH)).error["message"]

    run(main())
