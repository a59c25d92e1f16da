"""The way as a whole, over attempts that play a script: the order of its steps, and that everything is told and given back."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import Any, cast

import pytest

from autohedge.attempt import WON, Opened
from autohedge.call import Call, Out
from autohedge.core.problems import BadRequest, NotFound, Problem, TooLarge, Unavailable, UpstreamFailed
from autohedge.core.types import Attempt, Candidate, Failure, Judgement, Outcome, Verdict
from autohedge.memory.meters import ATTEMPTS
from autohedge.payloads.sse import StreamWatch
from autohedge.relay import Relay
from tests.support.desk import Desk, run
from tests.support.desk import call as called
from tests.support.world import backend, lesson, model

pytestmark = pytest.mark.sources

HELLO = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
GOOD = b'{"id":"1","model":"m","choices":[{"message":{"content":"hi"}}]}'


class Script:
    """An attempter that plays one ending per attempt: verdict, status, body."""

    def __init__(self, desk: Desk, *endings: tuple[Verdict, int, bytes]) -> None:
        self.desk = desk
        self.endings = list(endings)
        self.opened: list[Opened] = []
        self.error: bytes | None = None

    async def __call__(self, call: Call, where: Candidate, stamp: int) -> Opened:
        verdict, status, body = self.endings.pop(0)
        where.replica.seat.in_flight += 1
        failure = None if status else Failure.REFUSED
        outcome = Outcome(status=status, finished=True, failure=failure)
        judgement = Judgement(verdict, "said", status=502 if status == 299 else 0)
        attempt = Attempt(where, self.desk.now, stamp, outcome=outcome, judgement=judgement)
        opened = Opened(attempt, lambda _replica: None, status=status, pieces=[body] if body else [], whole=bool(body))
        opened.won = verdict in WON
        if self.error is not None:
            opened.watch = StreamWatch(call.door)
            opened.watch.feed(b"data: " + self.error + b"\n\n")
        if not opened.won:
            opened.close()
        call.attempts.append(attempt)
        self.opened.append(opened)
        return opened


class Client:
    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.messages: list[MutableMapping[str, Any]] = []

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self.broken:
            raise ConnectionError
        self.messages.append(message)

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.messages[0]["headers"])


def served(
    *endings: tuple[Verdict, int, bytes],
    body: bytes = HELLO,
    config: str = "",
    client: Client | None = None,
    **more: Any,
) -> tuple[Client, Desk, Script]:
    """Serve one call over two replicas of `m`; raises what the way raises, after it was told."""
    desk = Desk(config)
    desk.add("a", backend("b", "one:1", "two:1"), lesson(model("m", context=4096)), lesson(model("m", context=4096)))
    script = Script(desk, *endings)
    script.error = more.get("error")
    desk.tools.attempter = cast("Any", script)
    client = client or Client()
    try:
        run(Relay(desk.tools).serve(called(body), Out(client.send)))
    finally:
        assert all(replica.seat.in_flight == 0 for replica in desk.snapshot.replicas.values())
        assert all(opened.closed for opened in script.opened)
        assert sum(desk.tools.meters.counters[ATTEMPTS].values()) == len(script.opened)
    return client, desk, script


def test_a_good_answer_goes_out_as_it_came() -> None:
    client, _, _ = served((Verdict.ANSWER, 200, GOOD))
    assert client.messages[1]["body"] == GOOD
    assert b"content-length" not in client.headers  # the server writes it
    assert client.headers[b"x-autohedge-attempts"] == b"1"


def test_a_failure_is_followed_and_both_are_told() -> None:
    client, desk, _ = served((Verdict.SICK, 500, b"{}"), (Verdict.ANSWER, 200, GOOD))
    assert client.headers[b"x-autohedge-attempts"] == b"2"
    assert desk.tools.meters.counters[ATTEMPTS] == {("b", "m", "sick"): 1, ("b", "m", "answer"): 1}


def test_the_most_telling_failure_is_the_answer() -> None:
    """A40."""
    client, _, _ = served((Verdict.SICK, 500, b'{"a":1}'), (Verdict.BUSY, 503, b'{"b":1}'))
    assert (client.messages[0]["status"], client.messages[1]["body"]) == (503, b'{"b":1}')
    assert client.headers[b"x-should-retry"] == b"false"


def test_nothing_telling_is_a_problem_of_ours() -> None:
    with pytest.raises(UpstreamFailed) as raised:
        served((Verdict.DEAD, 0, b""), (Verdict.DEAD, 0, b""))
    assert [detail.message for detail in raised.value.details] == ["b: said", "b: said"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{", BadRequest),
        (b"[]", BadRequest),
        (HELLO.replace(b'"m"', b'"nobody"'), NotFound),
        (HELLO.replace(b'"messages"', b'"max_tokens":99999,"messages"'), BadRequest),
        (HELLO.replace(b'"hi"', b"5"), BadRequest),
    ],
    ids=["json", "object", "model", "limit", "schema"],
)
def test_what_is_refused_is_refused_before_any_attempt(body: bytes, problem: type[Problem]) -> None:
    """read, look, check: no engine sees it, and it is told that nothing was tried."""
    with pytest.raises(problem):
        served(body=body)


def test_a_status_inside_of_a_200_is_the_status() -> None:
    """B43: the judge's status goes out, not the engine's."""
    client, _, _ = served((Verdict.CLIENT_FAULT, 299, b'{"error":{"code":400}}'))
    assert client.messages[0]["status"] == 502


def test_an_error_event_goes_out_as_json() -> None:
    """B44."""
    error = b'{"error":"Input validation error","error_type":"validation"}'
    client, _, _ = served((Verdict.CLIENT_FAULT, 422, b"data: " + error + b"\n\n"), error=error)
    assert client.messages[1]["body"] == error
    assert client.headers[b"content-type"] == b"application/json"


def test_a_page_of_html_becomes_a_problem() -> None:
    """B104: and the seat of the attempt that brought it is given back."""
    with pytest.raises(TooLarge) as raised:
        served((Verdict.CLIENT_FAULT, 413, b"<html>413</html>"))
    assert "b refused" in raised.value.message


def test_a_client_that_left_while_we_answered() -> None:
    """Whatever `send` raises: the seat is given back and the attempt is told."""
    with pytest.raises(ConnectionError):
        served((Verdict.ANSWER, 200, GOOD), client=Client(broken=True))


@pytest.mark.parametrize(
    ("override", "shown"), [("", b'"model":"m"'), ("request", b'"model":"m"'), ("other", b'"model":"other"')]
)
def test_the_name_in_a_plain_answer(override: str, shown: bytes) -> None:
    client, _, _ = served((Verdict.ANSWER, 200, GOOD), config=f"openai: {{model_override: '{override}'}}")
    assert shown in client.messages[1]["body"]
    assert b"content-length" not in client.headers


def test_nobody_to_ask() -> None:
    """All breakers are open by hard evidence and were knocked at: 503, when to come back, do not try at once."""
    desk = Desk()
    desk.add("a", backend("b", "one:1"), lesson(model("m")))
    script = Script(desk, *[(Verdict.DEAD, 0, b"")] * 9)
    desk.tools.attempter = cast("Any", script)
    relay = Relay(desk.tools)
    raised: list[Problem] = []
    for _ in range(4):
        try:
            run(relay.serve(called(HELLO), Out(Client().send)))
        except Problem as problem:
            raised.append(problem)
    assert isinstance(raised[-1], Unavailable)
    assert raised[-1].code == "no_backend"
    assert raised[-1].retry_after == 1
    assert len(script.opened) == 3  # two that opened it, one knock
