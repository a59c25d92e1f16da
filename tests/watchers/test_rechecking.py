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


EMBEDDED = Reply(200, b'{"object": "list", "model": "m", "data": [{"embedding": [0.1, 0.2]}]}', GOOD.headers)
NO_CHAT = Reply(404, b'{"error": {"message": "This is not a chat model and thus not supported here"}}', GOOD.headers)
MISSING = Reply(404, b'{"error": {"message": "x", "code": "DeploymentNotFound"}}', GOOD.headers)
NEWER = Reply(
    400,
    b'{"error": {"message": "Unsupported parameter: \'max_tokens\'. Use \'max_completion_tokens\' instead.",'
    b' "code": "unsupported_parameter", "param": "max_tokens"}}',
    GOOD.headers,
)


class Doors:
    """An engine that answers by path."""

    def __init__(self, **replies: Reply) -> None:
        self.replies = replies
        self.asked: list[tuple[str, Any]] = []

    async def __call__(
        self, address: Address, question: Question, headers: Any = (), limit: float | None = None
    ) -> Reply:
        name = question.path.partition("?")[0].rpartition("/")[2]
        self.asked.append((name, question.json))
        return self.replies.get(name, NO_CHAT)


def looked_at(engine: Any, door: str, minutes: float = 16) -> Retirements:
    """A provider outside said 410 at `door`; what is known of it after some minutes."""
    desk = Desk()
    spec = backend("b", "h:1", kind=Kind.OPENAI, models=("m",), external=True)
    desk.add("a", spec, lesson(model("m"), kind=Kind.OPENAI))
    retirements = Retirements(Shelf(), lambda: 0.0)

    async def main() -> None:
        (candidate,) = desk.snapshot.routes["m"].candidates
        retirements.note(candidate, Judgement(Verdict.RETIRED), Outcome(status=410, excerpt=GONE.body), now(), door)
        watching = asyncio.get_running_loop().create_task(
            Rechecker(retirements, desk.tools.registry, engine, now).run()
        )
        await asyncio.sleep(60 * minutes)
        watching.cancel()

    run(main())
    return retirements


@pytest.mark.parametrize("door", ["embeddings", ""], ids=["where it was seen", "at every door"])
def test_an_embedding_model_comes_back(door: str) -> None:
    """It has no chat, so a chat proves nothing: the door of the fact is asked, or one after the other until one suits."""
    engine = Doors(embeddings=EMBEDDED)
    assert looked_at(engine, door).facts == ()
    assert [name for name, _ in engine.asked] == (["embeddings"] if door else ["completions", "embeddings"])


def test_a_reasoning_model_comes_back() -> None:
    """B52: it refuses `max_tokens` and names the field it wants."""

    class Newer(Doors):
        async def __call__(self, address: Address, question: Question, *rest: Any, **more: Any) -> Reply:
            await super().__call__(address, question)
            return NEWER if "max_tokens" in (question.json or {}) else GOOD

    engine = Newer()
    assert looked_at(engine, "chat").facts == ()
    assert [set(body) & {"max_tokens", "max_completion_tokens"} for _, body in engine.asked] == [
        {"max_tokens"},
        {"max_completion_tokens"},
    ]


def test_what_its_provider_does_not_know_any_more_is_still_gone() -> None:
    """GitHub: 410, then unknown_model; the pause doubles as after another 410."""
    (fact,) = looked_at(Engine(MISSING), "chat").facts
    assert (fact.count, fact.pause) == (2, 1800.0)


def test_where_no_door_suits_nothing_is_proved() -> None:
    (fact,) = looked_at(Doors(), "").facts
    assert fact.count == 1
