"""One minimal inference, asked and judged: never loading a model, never keeping an unused one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autohedge.core.types import Door, Failure, Kind, Verdict
from autohedge.providers.base import Question, Reply
from autohedge.rules.probe_verdicts import Expected
from autohedge.watchers.inference import NOT_LOADED, Heard, Wanted, infer
from tests.support.vtime import run
from tests.watchers.scripted import World, chat, failed, reply

LOADED = {"models": [{"name": "m:latest", "model": "m:latest", "context_length": 4096}]}


def heard(kind: Kind, answers: dict[str, Reply], *, unused: bool = False) -> tuple[Heard, list[str], list[float]]:
    """One inference at an engine that answers by path; which paths it was asked, and with how much time."""
    world = World()
    world.add("b", "h", kind=kind)
    engine = world.engines["h"]
    engine.answer = lambda question: answers[question.path]
    candidate = world.candidate("b@h:8000")

    async def main() -> Heard:
        return await infer(world.ask, candidate, Wanted(Expected(Door.CHAT), 16, 10.0, unused=unused))

    result = run(main())
    return result, [question.path for _, question in engine.asked], engine.limits


def test_a_loaded_model_is_asked() -> None:
    """Ollama says first what is loaded; both questions share the time."""
    result, paths, limits = heard(Kind.OLLAMA, {"/api/ps": reply(200, LOADED), "/v1/chat/completions": chat()})
    assert result.judgement.verdict is Verdict.ANSWER
    assert paths == ["/api/ps", "/v1/chat/completions"]
    assert limits == pytest.approx([10.0, 9.95])


@pytest.mark.parametrize("told", [{"models": []}, {"models": None}, {"models": [{"name": "other:1b"}]}])
def test_a_model_that_is_not_loaded_is_never_asked(told: Any) -> None:
    """B14, B16: a probe does not load; the server is alive all the same, so the breaker stays neutral."""
    result, paths, _ = heard(Kind.OLLAMA, {"/api/ps": reply(200, told)})
    assert result == Heard(NOT_LOADED, spared=NOT_LOADED.reason)
    assert NOT_LOADED.verdict is Verdict.CAPABILITY
    assert paths == ["/api/ps"]


def test_an_ollama_that_does_not_tell_is_not_asked() -> None:
    """Never loading is the stronger promise."""
    result, paths, _ = heard(Kind.OLLAMA, {"/api/ps": reply(404, {"error": "x"})})
    assert (result.judgement, paths) == (NOT_LOADED, ["/api/ps"])


def test_an_unused_model_may_be_unloaded_in_peace() -> None:
    """B14: five minutes of keep-alive never end where somebody probes every ten seconds."""
    result, paths, _ = heard(Kind.OLLAMA, {"/api/ps": reply(200, LOADED)}, unused=True)
    assert paths == ["/api/ps"]
    assert "keep it in memory" in result.spared
    result, paths, _ = heard(Kind.VLLM, {"/v1/chat/completions": chat()}, unused=True)
    assert result.judgement.verdict is Verdict.ANSWER  # vLLM unloads nothing


def test_a_router_of_llama_cpp_is_asked_for_loaded_models_only() -> None:
    """A server of one model has it always."""
    for card, expected in (
        ({"id": "m"}, Verdict.ANSWER),
        ({"id": "m", "status": {"value": "loaded"}}, Verdict.ANSWER),
        ({"id": "m", "status": {"value": "unloaded"}}, Verdict.CAPABILITY),
    ):
        told = reply(200, {"object": "list", "data": [card]})
        result, paths, _ = heard(Kind.LLAMACPP, {"/v1/models": told, "/v1/chat/completions": chat()})
        assert result.judgement.verdict is expected
        assert len(paths) == (2 if expected is Verdict.ANSWER else 1)


@pytest.mark.parametrize(
    ("kind", "first", "verdict", "silent"),
    [
        (Kind.OLLAMA, failed(Failure.REFUSED), Verdict.DEAD, False),
        (Kind.OLLAMA, failed(Failure.FIRST_BYTE_TIMEOUT), Verdict.SICK, True),
        (Kind.LLAMACPP, reply(503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}), Verdict.LOADING, False),
        (Kind.OLLAMA, reply(500, {"error": "x"}), Verdict.SICK, False),
    ],
)  # fmt: skip
def test_what_the_first_question_proves_is_the_result(kind: Kind, first: Reply, verdict: Verdict, silent: bool) -> None:
    """B22: 503 on every path while loading; nobody there is nobody there."""
    path = "/api/ps" if kind is Kind.OLLAMA else "/v1/models"
    result, paths, _ = heard(kind, {path: first})
    assert (result.judgement.verdict, result.silent, paths) == (verdict, silent, [path])


@pytest.mark.parametrize(
    ("answer", "unsuitable", "silent"),
    [
        (lambda _: chat(), False, False),
        (lambda _: reply(404, {"detail": "Not Found"}), True, False),
        (lambda _: reply(400, {"error": {"message": "minimum is 16"}}), True, False),
        (lambda _: reply(503, b""), False, False),
        (lambda _: None, False, True),
    ],
)
def test_what_the_prober_learns(answer: Callable[[Question], Reply | None], unsuitable: bool, silent: bool) -> None:
    """Whether to try another door, whether to be quicker next time."""
    world = World()
    world.add("b", "h")
    world.engines["h"].answer = answer

    async def main() -> Heard:
        wanted = Wanted(Expected(Door.CHAT), 16, 10.0, unused=False)
        return await infer(world.ask, world.candidate("b@h:8000"), wanted)

    result = run(main())
    assert (result.unsuitable, result.silent) == (unsuitable, silent)


def test_a_model_that_wants_its_bound_in_the_newer_field_is_asked_again() -> None:
    """B52: the refusal names `max_completion_tokens`; one more question, within the same time."""

    def answer(question: Question) -> Reply:
        if "max_tokens" in (question.json or {}):
            return reply(400, {"error": {"message": "Use 'max_completion_tokens' instead.", "param": "max_tokens"}})
        return chat()

    world = World()
    world.add("b", "h", kind=Kind.OPENAI)
    engine = world.engines["h"]
    engine.answer = answer
    candidate = world.candidate("b@h:8000")
    wanted = Wanted(Expected(Door.CHAT), 16, 10.0, unused=False)
    assert run(infer(world.ask, candidate, wanted)).judgement.verdict is Verdict.ANSWER
    assert [(question.json or {}).get("max_completion_tokens") for _, question in engine.asked] == [None, 16]
    assert engine.limits == pytest.approx([10.0, 9.95])
