"""How alerts read, and what never stands in them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.rules.alerts import Event, Item, Phase, Topic
from autohedge.rules.letters import LISTED, LONGEST, as_json, as_slack, clean, letter, sentence

AT = 1_790_000_000.0  # 2026-09-21 14:13:20 UTC


def event(text: str = "a replica is out of the pool: 6/10 succeeded", on: bool = True, at: float = AT) -> Event:
    return Event(Topic.BREAKER, "b@10.0.0.7:8000|m", on, "backend pair, model m", text, at)


def item(phase: Phase = Phase.BEGAN, times: int = 1, text: str = "") -> Item:
    over = (
        event("the replica is back: 2 trials answered", on=False, at=AT + 45)
        if phase.value.startswith("over")
        else None
    )
    return Item(phase, event(text) if text else event(), AT, times, over)


@pytest.mark.parametrize(
    ("phase", "times", "words"),
    [
        (Phase.BEGAN, 1, "a replica is out of the pool: 6/10 succeeded"),
        (Phase.BEGAN, 4, "a replica is out of the pool: 6/10 succeeded (4 times)"),
        (Phase.STILL, 3, "still, for 2.0 h: a replica is out of the pool: 6/10 succeeded (3 times)"),
        (Phase.AGAIN, 9, "again: a replica is out of the pool: 6/10 succeeded (9 times)"),
        (Phase.OVER, 0, "the replica is back: 2 trials answered (after 45 s)"),
        (
            Phase.BRIEF,
            1,
            "a replica is out of the pool: 6/10 succeeded; over after 45 s: the replica is back: 2 trials answered",
        ),
    ],
)
def test_a_sentence_per_phase(phase: Phase, times: int, words: str) -> None:
    assert sentence(item(phase, times), AT + 7200) == f"backend pair, model m: {words}"


def test_one_item_is_its_own_subject() -> None:
    one = letter([item()], "edge-1", AT)
    assert one.subject == "[AutoHedge] backend pair, model m: a replica is out of the pool: 6/10 succeeded"
    assert one.text == (
        "AutoHedge on edge-1 reports:\n\n"
        "- 2026-09-21 14:13:20 UTC  backend pair, model m: a replica is out of the pool: 6/10 succeeded\n"
    )


def test_many_items_are_counted_and_the_list_is_bounded() -> None:
    one = letter([item()] * (LISTED + 7), "edge-1", AT, dropped=3)
    assert one.subject.endswith(f"(and {LISTED + 6} more)")
    assert one.text.count("6/10 succeeded") == LISTED
    assert "- and 7 more\n" in one.text
    assert "3 alerts were dropped" in one.text


def test_the_body_of_a_webhook() -> None:
    """All fields as data, times in UTC."""
    body = as_json(letter([item(Phase.OVER)], "edge-1", AT), "edge-1")
    assert body["source"] == "autohedge"
    assert body["alerts"] == [
        {
            "topic": "breaker",
            "phase": "over",
            "where": "backend pair, model m",
            "text": "the replica is back: 2 trials answered",
            "sentence": "backend pair, model m: the replica is back: 2 trials answered (after 45 s)",
            "since": "2026-09-21 14:13:20 UTC",
            "at": "2026-09-21 14:14:05 UTC",
            "times": 1,
        }
    ]
    assert json.loads(json.dumps(body)) == body


def test_slack_s_own_signs_are_escaped() -> None:
    """An engine's message must not call a whole channel."""
    one = letter([item(text="<!channel> & <https://x|y>")], "edge-1", AT)
    assert as_slack(one) == {
        "text": "[AutoHedge] backend pair, model m: &lt;!channel&gt; &amp; &lt;https://x|y&gt;",
    }
    assert as_slack(letter([item()] * 2, "edge-1", AT))["text"].startswith("AutoHedge on edge-1 reports:")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("6/10 succeeded", "6/10 succeeded"),
        ("410: https://api-inference.huggingface.co is no longer supported", None),
        ("model Qwen2.5-7B-Instruct-GPTQ-Int4 and meta-llama/Llama-3.1-8B-Instruct", None),
        ("model gpt-35-turbo-2024-11-20, deepseek-r1:671b", None),
        ("Incorrect API key provided: sk-proj-ab12********wxyz.", "Incorrect API key provided: ***."),
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer ***"),
        ("key 0123456789abcdef0123456789abcdef is bad", "key *** is bad"),
        ("connect to 10.0.0.7:8000 failed, then 192.168.1.1", "connect to <address> failed, then <address>"),
        ("[fd00::1]:2375 and redis://user:pw@cache/0", "<address> and redis://***@cache/0"),
        ("two\r\nlines\x00\x1b[31m", "two lines [31m"),
        ("x" * 1000, "x" * (LONGEST - 3) + "..."),
    ],
)
def test_what_others_wrote_is_cleaned(text: str, shown: str | None) -> None:
    """Credentials, addresses, control characters and length; names of models and public hosts stay."""
    assert clean(text) == (text if shown is None else shown)


def test_the_fact_s_own_name_is_never_shown() -> None:
    """It holds the replica's address."""
    for phase in Phase:
        one = letter([item(phase)], "edge-1", AT)
        assert "10.0.0.7" not in one.subject + one.text + json.dumps(one.alerts)


@given(st.text(max_size=3000), st.text(max_size=300))
def test_any_text_makes_a_letter(text: str, sender: str) -> None:
    """One line per item, bounded, and JSON."""
    one = letter([item(text=text or "x")] * 2, sender, AT)
    assert len(one.subject) < 250
    assert "\n" not in one.subject
    assert one.subject.isprintable()
    assert len(one.text.splitlines()) == 4
    json.dumps(as_json(one, sender))
