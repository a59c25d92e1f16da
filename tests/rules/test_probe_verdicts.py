"""The verdict of a probe is on what came back, not on its status."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.types import Door, Failure, Kind, Verdict
from autohedge.providers import DIALECTS
from autohedge.providers.base import Reply
from autohedge.rules.probe_verdicts import Expected, judged, judged_light, silent

V, K = Verdict, Kind
VLLM = DIALECTS[K.VLLM]


def said(body: Any, status: int = 200, /, **headers: str) -> Reply:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Reply(status, raw, {"content-type": "application/json", **headers})


def chat(content: Any = "hello", finish: str = "stop", **message: Any) -> Reply:
    message = {"role": "assistant", "content": content, **message}
    return said({"model": "m", "choices": [{"index": 0, "finish_reason": finish, "message": message}]})


@pytest.mark.parametrize(
    "reply",
    [
        chat(),
        chat("paH mamoH] be", "length"),  # a tiny random model: still alive
        chat(None, "length", reasoning_content="let me think"),  # T88: reasoning alone is no failure
        chat("", "length", reasoning="let me think"),
        chat("", "length"),  # all 16 tokens went into hidden thinking
        chat(None, "tool_calls", tool_calls=[{"id": "c", "type": "function", "function": {"name": "f"}}]),
        chat(None, "stop", refusal="I cannot."),
        chat([{"type": "text", "text": "hello"}]),
        chat("ha ha ha ha"),
        chat("!!!"),  # short: somebody may mean it
        said({"choices": [{"text": "hello", "index": 0, "finish_reason": "length"}]}),
    ],
)
def test_what_a_living_model_says(reply: Reply) -> None:
    """Choices with text, or with what stands for it."""
    assert judged(reply, VLLM, Expected(Door.CHAT)).verdict is V.ANSWER


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (chat("////////////////"), "one character again and again"),  # T88
        (chat("! ! ! ! ! ! ! !"), "one character again and again"),
        (chat("", reasoning_content="________________"), "one character again and again"),
        (chat(""), "an empty answer"),
        (chat("  \n "), "an empty answer"),
        (chat(None), "an empty answer"),
        (said({"choices": []}), "no choices"),
        (said({"choices": None}), "no choices"),
        (said({"id": "x", "object": "chat.completion"}), "no choices"),
        (said({"healthy": True}), "no choices"),
        (said(b""), "empty body"),
        (said(b"OK"), "no answer"),
        (said(b"[1]"), "no JSON object"),
        (said(b"<html>It works</html>", **{"content-type": "text/html"}), "HTML"),
        (said({"error": {"message": "x", "type": "server_error"}}), "the engine failed"),
    ],
)
def test_a_green_status_is_not_enough(reply: Reply, why: str) -> None:
    """The article 3.3: 200 without choices is degraded; so is 200 with nothing in them."""
    judgement = judged(reply, VLLM, Expected(Door.CHAT))
    assert judgement.verdict is V.SICK
    assert why in judgement.reason


def test_the_detector_of_repetition_can_be_set() -> None:
    """0 is off; a smaller number is stricter."""
    assert judged(chat("////////"), VLLM, Expected(Door.CHAT, repeats=0)).verdict is V.ANSWER
    assert judged(chat("///"), VLLM, Expected(Door.CHAT, repeats=3)).verdict is V.SICK


@pytest.mark.parametrize(
    ("vector", "verdict"),
    [
        ([0.1, -0.2], V.ANSWER),
        ("zczMPc3MTL4=", V.ANSWER),  # base64
        ([[0.1, 0.2], [0.3, 0.4]], V.ANSWER),
        ([0.0, 0.0], V.SICK),
        ([None, None], V.SICK),  # NaN as llama.cpp writes it
        ([float("nan")], V.SICK),
        ([], V.SICK),
        ("", V.SICK),
        (None, V.SICK),
    ],
)
def test_a_vector_has_numbers(vector: Any, verdict: Verdict) -> None:
    """Zeros and NaN come from broken kernels behind a 200."""
    body = {"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": vector}]}
    assert judged(said(body), VLLM, Expected(Door.EMBEDDINGS)).verdict is verdict


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ({"p": {"type": "noul", "noul": 0.73}}, V.ANSWER),
        ({"p": {"type": "noul", "noul": 1, "x_label_mass": 0.2}}, V.ANSWER),
        ({"p": {"type": "noul", "noul": 1.5}}, V.SICK),
        ({"p": {"type": "noul", "noul": None}}, V.SICK),
        ({"p": "yes"}, V.SICK),
        ({}, V.SICK),
    ],
)
def test_a_decision_has_a_probability(answers: Any, verdict: Verdict) -> None:
    """Systemone 10: the invariants of an answer make a great deep probe."""
    body = {"model": "jev-1.13.0", "answers": answers, "usage": {"input_tokens": 30, "output_tokens": 0}}
    judgement = judged(said(body), DIALECTS[K.SYSTEMONE], Expected(Door.SYSTEMONE))
    assert judgement.verdict is verdict


@pytest.mark.parametrize(
    ("kind", "reply", "verdict"),
    [
        # B13: a probe that is too small for a reasoning model
        (K.OPENAI, said({"error": {"message": "Could not finish the message because max_tokens or model output limit was reached", "type": "invalid_request_error"}}, 400), V.CLIENT_FAULT),
        (K.VLLM, said({"error": {"message": "The model `m` does not exist.", "type": "NotFoundError", "code": 404}}, 404), V.CAPABILITY),
        (K.VLLM, said({"detail": "Not Found"}, 404), V.CAPABILITY),  # chat on an embedding server
        (K.LLAMACPP, said({"error": {"code": 500, "message": "the current context does not support logits computation. skipping", "type": "server_error"}}, 500), V.CAPABILITY),
        (K.LLAMACPP, said({"error": {"code": 501, "message": "This server does not support embeddings. Start it with `--embeddings`", "type": "not_supported_error"}}, 501), V.CAPABILITY),
        (K.VLLM, said({"error": "Unauthorized"}, 401), V.CLIENT_FAULT),  # we have no key for it: somebody answers all the same
        (K.VLLM, said(b'data: {"choices":[{"delta":{}}]}\n\ndata: [DONE]\n\n'), V.CAPABILITY),
        (K.VLLM, said(b"", 302, location="https://elsewhere.example/"), V.CLIENT_FAULT),
    ],
)  # fmt: skip
def test_alive_but_unsuitable(kind: Kind, reply: Reply, verdict: Verdict) -> None:
    """Neutral, and said so: neither dead (B13) nor a success (smg PR 2565)."""
    judgement = judged(reply, DIALECTS[kind], Expected(Door.CHAT))
    assert judgement.verdict is verdict
    assert judgement.reason.startswith("alive, but the probe does not suit it")


@pytest.mark.parametrize(
    ("kind", "reply", "verdict"),
    [
        (K.LLAMACPP, said({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, 503), V.LOADING),  # B22
        (K.OLLAMA, said({"error": {"message": "server busy, please try again.  maximum pending requests exceeded"}}, 503), V.BUSY),
        (K.VLLM, said({}, 429, **{"retry-after": "7"}), V.BUSY),
        (K.VLLM, said({"error": {"message": "CUDA error: an illegal memory access was encountered", "code": 500}}, 500), V.DEAD),  # B04
        (K.VLLM, said({"error": {"message": "EngineCore encountered an issue.", "code": 500}}, 500), V.DEAD),  # B05
        (K.VLLM, said(b"", 500), V.SICK),
        (K.OPENAI, said({"error": "https://x is no longer supported"}, 410), V.RETIRED),
    ],
)  # fmt: skip
def test_other_errors_are_judged_as_always(kind: Kind, reply: Reply, verdict: Verdict) -> None:
    """One judge for live traffic and probes."""
    assert judged(reply, DIALECTS[kind], Expected(Door.CHAT)).verdict is verdict


def test_our_own_key_refused_is_a_misconfiguration() -> None:
    """Unlike a 401 to a probe without a key."""
    refused = said({"error": "Unauthorized"}, 401)
    assert judged(refused, VLLM, Expected(Door.CHAT, own_key=True)).verdict is V.MISCONFIGURED


@pytest.mark.parametrize(
    ("failure", "verdict", "quiet"),
    [
        (Failure.REFUSED, V.DEAD, False),
        (Failure.UNREACHABLE, V.DEAD, False),
        (Failure.CUT, V.SICK, False),
        (Failure.CONNECT_TIMEOUT, V.SICK, True),
        (Failure.FIRST_BYTE_TIMEOUT, V.SICK, True),
        (Failure.STALLED, V.SICK, True),
        (Failure.DEADLINE, V.SICK, True),  # the probe's own time is all that the engine was given
        ("the answer is compressed, which was not asked for", V.CAPABILITY, False),
        ("the question cannot be written", V.CAPABILITY, False),
        ("", V.CAPABILITY, False),
    ],
)
def test_when_nothing_came(failure: str, verdict: Verdict, quiet: bool) -> None:
    """What the transport says is judged; what is not about the engine says nothing about it."""
    reply = Reply(0, failure=failure)
    assert judged(reply, VLLM, Expected(Door.CHAT)).verdict is verdict
    assert silent(reply) is quiet


@pytest.mark.parametrize(
    ("told", "names", "verdict"),
    [
        ("m", {"m"}, V.ANSWER),
        ("M.gguf", {"/models/m.gguf"}, V.ANSWER),
        ("llama3:latest", {"llama3"}, V.ANSWER),
        ("base", {"lora", "base"}, V.ANSWER),  # vLLM answers with its first served name
        ("other", {"m"}, V.MISCONFIGURED),
        ("other", set(), V.ANSWER),  # not comparable
        ("", {"m"}, V.ANSWER),
        (None, {"m"}, V.ANSWER),
    ],
)
def test_the_right_model_where_it_is_told(told: str | None, names: set[str], verdict: Verdict) -> None:
    """An address that was given to another model answers well, and is not the one that was meant."""
    reply = said({"model": told, "choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]})
    judgement = judged(reply, VLLM, Expected(Door.CHAT, frozenset(names)))
    assert judgement.verdict is verdict
    assert "other" not in judgement.reason  # what an engine writes is not repeated


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (Reply(200), V.ANSWER),
        (Reply(204), V.SICK),
        (Reply(503), V.SICK),
        (Reply(0, failure=Failure.FIRST_BYTE_TIMEOUT), V.SICK),
        (Reply(0, failure=Failure.REFUSED), V.DEAD),
        (Reply(0), V.SICK),
    ],
)
def test_a_ping(reply: Reply, verdict: Verdict) -> None:
    """Seed 000: 200 is good and nothing else is."""
    assert judged_light(reply).verdict is verdict


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "text", "data", "embedding", "answers", "p", "noul", "error", "model"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON | st.binary(max_size=40), st.integers(0, 599), st.sampled_from(list(Door)), st.sampled_from(list(Kind)))
def test_whatever_comes_back_there_is_one_judgement(body: Any, status: int, door: Door, kind: Kind) -> None:
    """Total: foreign bytes never raise."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    assert judged(Reply(status, raw), DIALECTS[kind], Expected(door, frozenset({"m"}))).verdict in Verdict
