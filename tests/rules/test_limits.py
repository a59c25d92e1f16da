"""Who can serve an ask, the one 400 when nobody can, and the proof that spares a count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.ask import Ask
from autohedge.core.problems import Detail
from autohedge.core.types import Candidate, Door, Fact, Kind, Limits, Rank
from autohedge.providers.base import TOO_LONG
from autohedge.rules.limits import PER_PART, PER_PROMPT, check, needs_count, refusal
from tests.providers.saying import NOW, chat, config, engine, place


def nothing(_kind: Kind) -> tuple[Detail, ...]:
    return ()


def small(**more: object) -> Candidate:
    return place(Kind.VLLM, Limits(context=engine(4096), **more), backend="small")  # type: ignore[arg-type]


LARGE = place(Kind.VLLM, Limits(context=engine(32768)), backend="large", port=8001)


def test_only_those_that_would_refuse_are_skipped() -> None:
    """A request goes to the backend that can take it; the other keeps its reason."""
    fit = check(chat(8192), nothing, (small(), LARGE), {}, NOW)
    assert fit.usable == (LARGE,)
    ((skipped, details),) = fit.skipped
    assert skipped.backend.name == "small"
    assert [detail.code for detail in details] == ["limit_exceeded"]


def test_the_order_is_kept() -> None:
    candidates = (LARGE, small(), LARGE)
    assert check(chat(), nothing, candidates, {}, NOW).usable == candidates


def test_unknown_limits_refuse_nothing() -> None:
    """Unknown is not checked: one backend that told nothing may serve it."""
    stranger = place(Kind.OPENAI, backend="stranger")
    assert check(chat(10**9), nothing, (LARGE, stranger), {}, NOW).usable == (stranger,)


def test_a_kind_that_refuses_the_body_is_skipped_and_asked_once() -> None:
    """00: rules belong to the kind; what llama.cpp serves goes there."""
    asked: list[Kind] = []

    def findings(kind: Kind) -> tuple[Detail, ...]:
        asked.append(kind)
        return (Detail("top_p", "invalid_value", "top_p: 2 is more than 1"),) if kind is Kind.VLLM else ()

    llama = place(Kind.LLAMACPP, backend="llama")
    fit = check(chat(), findings, (LARGE, small(), llama), {}, NOW)
    assert fit.usable == (llama,)
    assert asked == [Kind.VLLM, Kind.LLAMACPP]


def able(**known: bool) -> Limits:
    facts = {
        name: Fact(value, "capabilities, read from /api/show", Rank.ENGINE, NOW - 3) for name, value in known.items()
    }
    return Limits(abilities=facts)


@pytest.mark.parametrize(
    ("ask", "limits", "message"),
    [
        (
            chat(tools=True),
            able(tools=False),
            "tools: model qwen2-7b on o does not support tools (capabilities, read from /api/show 3 s ago)",
        ),
        (
            chat(media=True),
            able(vision=False),
            "messages: model qwen2-7b on o does not support images or other media (capabilities, read",
        ),
        (
            chat(response_format=True),
            able(response_format=False),
            "response_format: model qwen2-7b on o does not support response_format",
        ),
        (
            chat(),
            able(chat=False),
            "model qwen2-7b on o does not support the chat API (capabilities, read from /api/show 3 s ago)",
        ),
        (Ask(Door.EMBEDDINGS, "e"), able(embeddings=False), "model e on o does not support the embeddings API"),
    ],
)
def test_what_is_known_to_be_missing_is_a_finding(ask: Ask, limits: Limits, message: str) -> None:
    fit = check(ask, nothing, (place(Kind.OLLAMA, limits, backend="o"),), {}, NOW)
    problem = refusal(fit)
    assert problem.code == "unsupported_feature"
    assert problem.message.startswith(message)


@pytest.mark.parametrize("limits", [able(), able(tools=True, vision=True, chat=True), able(embeddings=False)])
def test_what_is_unknown_or_present_is_none(limits: Limits) -> None:
    ask = chat(tools=True, media=True, response_format=True)
    assert check(ask, nothing, (place(Kind.OLLAMA, limits),), {}, NOW).usable


def test_exact_counts_by_replica_or_by_backend() -> None:
    """b: only an engine's own count refuses a prompt."""
    candidate = small()
    for key in (candidate.replica.id, "small"):
        fit = check(chat(), nothing, (candidate, LARGE), {key: 5000}, NOW)
        assert fit.usable == (LARGE,)
        assert fit.skipped[0][1][0].code == "context_length_exceeded"
    assert check(chat(), nothing, (candidate,), {"small": 4000, candidate.replica.id: 5000}, NOW).usable == ()
    assert check(chat(), nothing, (candidate,), {"small": TOO_LONG}, NOW).usable == ()
    assert check(chat(), nothing, (candidate,), {"other": TOO_LONG}, NOW).usable == (candidate,)


def test_the_refusal_of_the_article() -> None:
    """The article's example: max_tokens 1000000 is a 400 that can be mended without asking anybody."""
    backend = place(Kind.VLLM, Limits(context=engine(32768), max_output=config(32768)))
    problem = refusal(check(chat(1_000_000), nothing, (backend, backend), {}, NOW))
    assert problem.status == 400
    assert problem.code == "limit_exceeded"
    assert problem.param == "max_tokens"
    assert problem.message == (
        "max_tokens: 1000000 is more than the 32768 that model qwen2-7b on vllm-qwen2-7b accepts"
        " (max_model_len, read from /v1/models 12 s ago)"
    )
    assert len(problem.details) == 1


def test_the_closest_candidate_leads_and_the_others_follow() -> None:
    """Fewest findings first, then the largest limit."""
    problem = refusal(check(chat(50_000), nothing, (small(), LARGE), {}, NOW))
    assert [detail.limit for detail in problem.details] == [32768, 4096]
    assert problem.message.startswith("max_tokens: 50000 is more than the 32768 that model qwen2-7b on large accepts")
    assert problem.message.endswith("(and 1 more)")
    worse = check(
        chat(50_000),
        lambda kind: (Detail("a", "invalid_value", "a"),) if kind is Kind.VLLM else (),
        (LARGE, *_sglang()),
        {},
        NOW,
    )
    assert refusal(worse).details[0].limit == 100


def _sglang() -> tuple[Candidate, ...]:
    return (place(Kind.SGLANG, Limits(context=engine(100)), backend="tiny"),)


def test_findings_in_the_body_are_listed_once() -> None:
    findings = (Detail("messages[0].role", "invalid_value", "messages[0].role: 5 is no string"),)
    problem = refusal(check(chat(), lambda _kind: findings, (small(), LARGE), {}, NOW))
    assert problem.details == findings
    assert problem.code == "invalid_value"
    assert problem.param == "messages[0].role"


# --- the cheap proof --------------------------------------------------------------------------------------------------


def test_a_short_prompt_needs_no_count() -> None:
    assert not needs_count(chat(text_bytes=1000, parts=2), small(), 1200)


@pytest.mark.parametrize("text", range(3400, 3600, 10))
def test_the_margin_covers_templates(text: int) -> None:
    """b: a byte is at most a token; 64 tokens per message and 512 per prompt stand for what templates add."""
    expected = text + PER_PART + PER_PROMPT + 1 <= 4096
    assert needs_count(chat(text_bytes=text), small(), text + 50) is not expected


@pytest.mark.parametrize("kind", [Kind.VLLM, Kind.SGLANG])
def test_max_tokens_over_the_window_is_refused_without_a_count(kind: Kind) -> None:
    """Whatever the prompt, the answer is the same 400; only a prompt that may be too long as well is counted."""
    candidate = place(kind, Limits(context=engine(4096)))
    assert not needs_count(chat(5000, text_bytes=100), candidate, 200)
    assert needs_count(chat(5000, text_bytes=5000), candidate, 5100)


def test_tools_count_with_the_whole_body() -> None:
    """Tool definitions are rendered into the prompt, so the body is their bound."""
    assert not needs_count(chat(text_bytes=10), small(), 4000)
    assert needs_count(chat(text_bytes=10, tools=True), small(), 4000)


def test_a_compressed_body_proves_nothing_by_its_size() -> None:
    assert needs_count(chat(text_bytes=10_000), small(), 100)


def test_media_have_no_bound() -> None:
    """T1: a data URL is not text; such a prompt is counted or let through, never refused by its size."""
    assert needs_count(chat(media=True, text_bytes=10), small(), 5_000_000)
    assert check(chat(media=True, text_bytes=5_000_000), nothing, (small(),), {}, NOW).usable


@pytest.mark.parametrize("kind", [Kind.OLLAMA, Kind.OPENAI, Kind.SYSTEMONE, Kind.AZURE])
def test_where_no_length_is_checked_there_is_nothing_to_prove(kind: Kind) -> None:
    assert not needs_count(chat(media=True, text_bytes=10**9), place(kind, Limits(context=engine(100))), 10**9)


def test_an_ask_that_has_its_prompt_cut_fits() -> None:
    """T5."""
    assert not needs_count(chat(truncates=True, text_bytes=10**6), small(), 10**6)


def test_sglang_needs_room_for_max_tokens_too() -> None:
    candidate = place(Kind.SGLANG, Limits(context=engine(4096)))
    assert not needs_count(chat(1000, text_bytes=2000), candidate, 2100)
    assert needs_count(chat(2000, text_bytes=2000), candidate, 2100)


@given(
    kind=st.sampled_from(list(Kind)),
    text=st.integers(0, 3000),
    tokens=st.integers(0, 3000),
    max_tokens=st.none() | st.integers(0, 6000),
    context=st.none() | st.integers(1, 5000),
    door=st.sampled_from([Door.CHAT, Door.COMPLETIONS, Door.EMBEDDINGS]),
)
def test_where_no_count_is_needed_none_changes_what_is_found(
    kind: Kind, text: int, tokens: int, max_tokens: int | None, context: int | None, door: Door
) -> None:
    """The proof and the check agree: a true count is at most the bytes and the margin."""
    candidate = place(kind, Limits(context=None if context is None else engine(context)))
    ask = Ask(door, "m", max_tokens=max_tokens, text_bytes=text)
    if not needs_count(ask, candidate, text):
        count = min(tokens, text + PER_PART + PER_PROMPT)
        alone, counted = (
            check(ask, nothing, (candidate,), counts, NOW).skipped for counts in ({}, {candidate.replica.id: count})
        )
        assert _params(alone) == _params(counted)


def _params(skipped: tuple[tuple[Candidate, tuple[Detail, ...]], ...]) -> list[str | None]:
    return [detail.param for _, details in skipped for detail in details]
