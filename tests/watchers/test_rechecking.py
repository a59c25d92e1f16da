"""What is retired is looked at again, in virtual time."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest

from autohedge.core.types import Address, Judgement, Kind, Outcome, Verdict
from autohedge.memory.retired import Retirements
from autohedge.providers.base import Question, Reply
from autohedge.watchers.rechecking import Rechecker
from tests.support.desk import Desk, Shelf
from tests.support.vtime import now, run
from tests.support.world import backend, lesson, model

GOOD = Reply(
    200,
    json.dumps({"model": "m", "choices": [{"message": {"content": "well"}, "finish_reason": "stop"}]}).encode(),
    {"content-type": "application/json"},
)
GONE = Reply(410, b'{"error": {"message": "model m has been retired"}}', {"content-type": "application/json"})
SICK = Reply(500, b'{"error": {"message": "oops"}}', {"content-type": "application/json"})


class Engine:
    """Answers by script; the last answer stays."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[float] = []

    async def __call__(
        self, address: Address, question: Question, headers: Any = (), limit: float | None = None
    ) -> Reply:
        self.asked.append(now())
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def watched(engine: Engine, seconds: float, *, leads: bool = True, listed: bool = True) -> tuple[Retirements, Desk]:
    desk = Desk()
    desk.add("a", backend("b", "h:1", kind=Kind.VLLM, models=("m",), listed=listed), lesson(model("m")))
    retirements = Retirements(Shelf(), lambda: 0.0)

    async def main() -> None:
        candidate = next(iter(desk.snapshot.routes["m"].candidates)) if listed else None
        if candidate is not None:
            retirements.note(candidate, Judgement(Verdict.RETIRED), Outcome(status=410, excerpt=GONE.body), now())
        rechecker = Rechecker(retirements, desk.tools.registry, engine, now, lambda: leads)
        watching = asyncio.get_running_loop().create_task(rechecker.run())
        await asyncio.sleep(seconds)
        watching.cancel()

    run(main())
    return retirements, desk


def test_a_brownout_ends(caplog: pytest.LogCaptureFixture) -> None:
    """B106: after 15 minutes one question, and the model is back."""
    engine = Engine(GOOD)
    retirements, _ = watched(engine, 1000)
    assert len(engine.asked) == 1
    assert 900 <= engine.asked[0] <= 910
    assert retirements.facts == ()


def test_what_is_gone_is_asked_ever_more_rarely() -> None:
    """B107: 15 min, then 30, 60 ... up to a day."""
    engine = Engine(GONE)
    retirements, _ = watched(engine, 4 * 3600)
    assert len(engine.asked) == 4
    gaps = [late - early for early, late in pairwise(engine.asked)]
    assert all(late > 1.9 * early for early, late in pairwise(gaps))
    assert len(retirements.facts) == 1


def test_another_failure_says_nothing() -> None:
    engine = Engine(SICK)
    retirements, _ = watched(engine, 2000)
    assert len(engine.asked) == 2
    assert len(retirements.facts) == 1


def test_only_one_process_looks() -> None:
    engine = Engine(GOOD)
    watched(engine, 2000, leads=False)
    assert engine.asked == []
