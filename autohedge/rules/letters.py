"""How alerts read: one sentence per item, one letter for all that is due, as mail, as JSON and as a text for Slack.

Rules
- A sentence stands alone: where, what, since when, how often. Times are UTC.
- Nothing of the inside is shown: texts that others wrote (an engine's message, a source's reason) lose addresses of machines
  and whatever looks like a credential, and are one line of at most `LONGEST` characters.
- A letter lists at most `LISTED` items and says how many more there are.
- Slack reads <, > and & as its own signs (a model named "<!channel>" would call everybody), so they are escaped.

It must not know: SMTP, HTTP, when a letter is sent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from autohedge.rules.alerts import Item, Phase

LISTED = 50
LONGEST = 400
SUBJECT = 150  # characters

_HIDDEN = (
    (re.compile(r"://[^/\s@]*@"), "://***@"),
    (re.compile(r"\b(Bearer|Basic)\s+\S+", re.IGNORECASE), r"\1 ***"),
    (re.compile(r"\b(?:sk|pk|rk|hf|gsk|xai|ghp|github_pat|key)[-_][A-Za-z0-9*_-]{6,}"), "***"),
    (re.compile(r"\b(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{24,}\b"), "***"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b"), "<address>"),
    (re.compile(r"\[[0-9A-Fa-f]*:[0-9A-Fa-f:.]+\](?::\d{1,5})?"), "<address>"),
)


@dataclass(frozen=True, slots=True)
class Letter:
    """What one message says. `alerts` is the same as data."""

    subject: str
    text: str
    alerts: tuple[dict[str, Any], ...]


def letter(items: Sequence[Item], sender: str, now: float, dropped: int = 0) -> Letter:
    """One message for all `items` (at least one). `sender` names this AutoHedge, `dropped` counts alerts that were lost."""
    first, more = sentence(items[0], now), len(items) - 1
    subject = f"[AutoHedge] {_cut(first, SUBJECT)}" + (f" (and {more} more)" if more else "")
    lines = [f"AutoHedge on {clean(sender)} reports:", ""]
    lines += [f"- {_time(_when(item))}  {sentence(item, now)}" for item in items[:LISTED]]
    if len(items) > LISTED:
        lines.append(f"- and {len(items) - LISTED} more")
    if dropped:
        lines += ["", f"{dropped} alerts were dropped since the start, because nobody could be told in time."]
    return Letter(subject, "\n".join(lines) + "\n", tuple(_record(item, now) for item in items[:LISTED]))


def sentence(item: Item, now: float) -> str:
    """One item in words."""
    where, text = clean(item.event.where), clean(item.event.text)
    match item.phase:
        case Phase.BEGAN:
            return f"{where}: {text}{_times(item.times)}"
        case Phase.STILL:
            return f"{where}: still, for {_span(now - item.since)}: {text}{_times(item.times)}"
        case Phase.AGAIN:
            return f"{where}: again: {text}{_times(item.times)}"
    assert item.over is not None
    end = clean(item.over.text)
    if item.phase is Phase.BRIEF:
        return f"{where}: {text}; over after {_span(item.over.at - item.since)}: {end}{_times(item.times)}"
    lasted = f" (after {_span(item.over.at - item.since)})" if item.over.at > item.since else ""
    return f"{where}: {end}{lasted}"


def as_json(one: Letter, sender: str) -> dict[str, Any]:
    """The body of a webhook."""
    return {"source": "autohedge", "sender": clean(sender), "subject": one.subject, "alerts": list(one.alerts)}


def as_slack(one: Letter) -> dict[str, Any]:
    """The body of an incoming webhook of Slack, Mattermost or Rocket.Chat."""
    text = one.subject if len(one.alerts) == 1 else one.text
    return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}


def clean(text: str) -> str:
    """One printable line of a bounded length, without addresses of machines and what looks like a credential."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: LONGEST * 4]).split())
    for pattern, instead in _HIDDEN:
        line = pattern.sub(instead, line)
    return _cut(line, LONGEST)


def _record(item: Item, now: float) -> dict[str, Any]:
    return {
        "topic": item.event.topic.value,
        "phase": item.phase.value,
        "where": clean(item.event.where),
        "text": clean(item.event.text if item.over is None else item.over.text),
        "sentence": sentence(item, now),
        "since": _time(item.since),
        "at": _time(_when(item)),
        "times": max(1, item.times),
    }


def _when(item: Item) -> float:
    return item.event.at if item.over is None else item.over.at


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _times(times: int) -> str:
    return f" ({times} times)" if times > 1 else ""


def _span(seconds: float) -> str:
    """A length of time for people: "12 s", "4 min", "3.5 h"."""
    if seconds < 120:
        return f"{max(0, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
