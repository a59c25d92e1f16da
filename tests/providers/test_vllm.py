"""vLLM's own words: cards, counts and arithmetic."""

from __future__ import annotations

import pytest

from autohedge.core.ask import Ask
from autohedge.core.types import Door, Kind, Limits, Rank
from autohedge.providers import vllm
from autohedge.providers.base import TOO_LONG, Counted
from tests.providers.saying import NOW, chat, config, engine, place, reply

MODELS = {
    "object": "list",
    "data": [
        {
            "id": "tiny-qwen",
            "object": "model",
            "owned_by": "vllm",
            "root": "MODELS/x",
            "parent": None,
            "max_model_len": 400,
        },
        {
            "id": "sql-lora",
            "object": "model",
            "owned_by": "vllm",
            "root": "/lora",
            "parent": "tiny-qwen",
            "max_model_len": None,
        },
    ],
}


def limited(context: int, **more: object) -> Limits:
    return Limits(context=engine(context), **more)  # type: ignore[arg-type]


def test_a_card_gives_name_window_and_source() -> None:
    """Table a: the window is max_model_len, and the fact says where it was read and when."""
    models = vllm.lessons({"/v1/models": reply(MODELS)}, NOW)
    assert models is not None
    base = models[0]
    assert (base.id, base.names, base.owned_by) == ("tiny-qwen", ("tiny-qwen",), "vllm")
    assert base.limits.context is not None
    assert (base.limits.context.value, base.limits.context.rank, base.limits.context.at) == (400, Rank.ENGINE, NOW)
    assert base.limits.context.told(NOW + 12) == "max_model_len, read from /v1/models 12 s ago"


def test_a_lora_card_inherits_the_window_of_its_parent() -> None:
    """Table a: LoRA cards carry null."""
    models = vllm.lessons({"/v1/models": reply(MODELS)}, NOW)
    assert models is not None
    assert models[1].id == "sql-lora"
    assert models[1].limits.context == models[0].limits.context


@pytest.mark.parametrize("length", [None, 0, -1, "400", 400.0, True, [], {}, 1 << 50])
def test_a_window_that_is_no_positive_whole_number_is_unknown(length: object) -> None:
    """Unknown is a value of its own, never 0."""
    models = vllm.lessons({"/v1/models": reply({"data": [{"id": "m", "max_model_len": length}]})}, NOW)
    assert models is not None
    assert models[0].limits.context is None


@pytest.mark.parametrize("name", ["", None, 5, "a\nb", "a\x00", "\ud800", "x" * 513])
def test_a_name_that_cannot_be_shown_or_sent_is_left_out(name: object) -> None:
    assert vllm.lessons({"/v1/models": reply({"data": [{"id": name}]})}, NOW) == ()


@pytest.mark.parametrize(
    "answer", [reply(None, 0), reply(MODELS, 500), reply(b"{"), reply([]), reply("x"), reply({}), reply({"data": 5})]
)
def test_what_is_no_list_of_models_teaches_nothing(answer: object) -> None:
    found = vllm.lessons({"/v1/models": answer}, NOW)  # type: ignore[dict-item]
    assert not found


def test_a_chat_is_counted_with_everything_that_changes_its_prompt() -> None:
    """Table b: messages, tools and the fields of the template; nothing else of the body is repeated."""
    body = {
        "model": "public",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "chat_template_kwargs": {"enable_thinking": False},
        "continue_final_message": None,
        "temperature": 0.5,
        "stream": True,
    }
    question = vllm.count(chat(obj=body), "qwen2-7b")
    assert question is not None
    assert question.path == "/tokenize"
    assert question.json == {
        "model": "qwen2-7b",
        "messages": body["messages"],
        "tools": body["tools"],
        "chat_template_kwargs": body["chat_template_kwargs"],
    }


def test_tools_that_may_be_left_out_are_not_counted() -> None:
    """A count that is too small never refuses wrongly; one that is too large would (T2)."""
    question = vllm.count(chat(obj={"messages": [], "tools": [1], "tool_choice": "none"}), "m")
    assert question is not None
    assert question.json == {"model": "m", "messages": []}


@pytest.mark.parametrize(
    ("door", "body", "expected"),
    [
        (Door.COMPLETIONS, {"prompt": "hi"}, {"model": "m", "prompt": "hi"}),
        (
            Door.COMPLETIONS,
            {"prompt": "hi", "add_special_tokens": False},
            {"model": "m", "prompt": "hi", "add_special_tokens": False},
        ),
        (Door.EMBEDDINGS, {"input": "hi"}, {"model": "m", "prompt": "hi"}),
        (Door.EMBEDDINGS, {"input": ["a", "b"]}, None),
        (Door.COMPLETIONS, {"prompt": [1, 2]}, None),
        (Door.CHAT, {}, None),
        (Door.CHAT, None, None),
        (Door.MESSAGES, {"messages": []}, None),
        (Door.RESPONSES, {"input": "hi"}, None),
    ],
)
def test_only_one_prompt_of_a_known_form_is_counted(door: Door, body: object, expected: object) -> None:
    question = vllm.count(Ask(door, "m", obj=body), "m")
    assert (question and question.json) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            reply({"count": 2, "max_model_len": 400, "tokens": [314, 310], "token_strs": None}),
            Counted(2, method="/tokenize"),
        ),
        (reply({"count": "2"}), Counted(method="/tokenize")),
        (reply(b"<html>"), Counted(method="/tokenize")),
        (reply({"detail": "Not Found"}, 404), Counted(method="/tokenize")),
        (reply(None, 0), Counted(method="/tokenize")),
        (
            reply(
                {
                    "error": {
                        "message": "This model's maximum context length is 400 tokens. However, your prompt contains at least 401"
                    }
                },
                400,
            ),
            Counted(too_long=True, method="/tokenize"),
        ),
        (reply({"error": {"message": "The model `x` does not exist."}}, 404), Counted(method="/tokenize")),
    ],
)
def test_counts_and_refusals_are_told_apart(answer: object, expected: Counted) -> None:
    """Table b: one version answers the count of a long prompt, another refuses with the length text."""
    assert vllm.counted(answer) == expected  # type: ignore[arg-type]


def test_the_message_of_a_large_max_tokens_reads_alone() -> None:
    """The article's own example, as a sentence with all that mends it."""
    details = vllm.fits(chat(1_000_000), None, place(Kind.VLLM, limited(32768)), NOW)
    (detail,) = details
    assert detail.message == (
        "max_tokens: 1000000 is more than the 32768 that model qwen2-7b on vllm-qwen2-7b accepts"
        " (max_model_len, read from /v1/models 12 s ago)"
    )
    assert (detail.param, detail.code, detail.value, detail.limit) == ("max_tokens", "limit_exceeded", 1_000_000, 32768)


@pytest.mark.parametrize(
    ("ask", "tokens", "fields"),
    [
        (chat(400), None, []),  # max_tokens equal to the window is fine
        (chat(401), None, ["max_tokens"]),
        (chat(300), 300, []),  # 00: prompt + max_tokens over the window is served, the answer is cut
        (chat(), 399, []),
        (chat(), 400, ["messages"]),  # 00: prompt >= window is refused
        (chat(500), 500, ["max_tokens", "messages"]),
        (chat(500, truncates=True), 500, []),  # T5: the ask has its prompt cut
        (Ask(Door.EMBEDDINGS, "m"), 400, []),  # pooling needs no room for an answer
        (Ask(Door.EMBEDDINGS, "m"), 401, ["input"]),
        (Ask(Door.COMPLETIONS, "m", max_tokens=0), 399, []),
        (Ask(Door.RESPONSES, "m", max_tokens=5000), None, []),  # vLLM cuts max_output_tokens itself
        (Ask(Door.EMBEDDINGS, "m", max_tokens=5000), None, []),  # means nothing there
    ],
)
def test_the_arithmetic_is_the_engines_own(ask: Ask, tokens: int | None, fields: list[str]) -> None:
    """Rules of b with 00 standing over them."""
    details = vllm.fits(ask, tokens, place(Kind.VLLM, limited(400)), NOW)
    assert [detail.param for detail in details] == fields


def test_an_operators_ceiling_is_kept_beside_a_larger_window() -> None:
    """The article's model_limits.max_tokens; the tighter of the two speaks, and only once."""
    limits = limited(131072, max_output=config(32768))
    details = vllm.fits(chat(1_000_000), None, place(Kind.VLLM, limits), NOW)
    assert [(detail.limit, detail.source) for detail in details] == [(32768, "model_limits.max_tokens in config.yaml")]


def test_the_engines_word_speaks_when_both_limits_are_equal() -> None:
    details = vllm.fits(chat(1_000_000), None, place(Kind.VLLM, limited(32768, max_output=config(32768))), NOW)
    assert [detail.source for detail in details] == ["max_model_len, read from /v1/models 12 s ago"]


def test_a_prompt_that_the_engine_refused_to_count_names_no_number() -> None:
    """vLLM stops counting at the window ("at least 401"), so the real length is not known."""
    details = vllm.fits(chat(), TOO_LONG, place(Kind.VLLM, limited(400)), NOW)
    assert details[0].value is None
    assert str(TOO_LONG) not in details[0].message
    assert details[0].code == "context_length_exceeded"


def test_unknown_limits_are_not_checked() -> None:
    assert vllm.fits(chat(10**9), 10**9, place(Kind.VLLM), NOW) == []
