"""The gate of the data path: three modes, precise refusals, rates, and a verifier that may be slow, wrong or gone."""

from __future__ import annotations

import asyncio
import hashlib
import timeit
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from autohedge.core.problems import Problem, TooManyRequests, Unauthorized, Unavailable
from autohedge.core.types import Address, Secret
from autohedge.doors.access import (
    ANYBODY,
    CREDENTIALS,
    FRESH,
    REFUSED,
    REMEMBERED,
    STALE,
    UNKNOWN,
    Admittance,
    Gatekeeper,
    accepted,
    bearer,
    verifier,
)
from autohedge.doors.envelope import rendered
from autohedge.providers.base import Question, Reply
from autohedge.settings.people import Auth
from autohedge.watchers.asking import Headers

HASHED = "sha256:" + hashlib.sha256(b"other").hexdigest()


def gate(tree: dict[str, Any], now: Callable[[], float] = lambda: 0.0, **more: Any) -> Gatekeeper:
    return Gatekeeper(Auth.model_validate(tree), now, **more)


def services(**more: Any) -> dict[str, Any]:
    return {"mode": "services", "services": {"shop": {"token": "s3cret"}, "mail": {"token": HASHED}} | more}


def said(name: str | None = None, token: str | None = None, header: bytes = b"authorization") -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    if name is not None:
        fields[b"x-service-id"] = name.encode()
    if token is not None:
        fields[header] = (f"Bearer {token}" if header == b"authorization" else token).encode()
    return fields


def refused(call: Callable[[], object]) -> Problem:
    with pytest.raises(Problem) as raised:
        call()
    return raised.value


# --- off --------------------------------------------------------------------------------------------------------------


def test_off_lets_anybody_in_and_leaves_the_credential_alone() -> None:
    """The default: the client's Authorization is for the engine."""
    assert gate({}).admit({}, 0.0) == gate({}).admit(said("x", "y"), 0.0) == ANYBODY == Admittance("", strip=False)


def test_off_costs_next_to_nothing() -> None:
    """Under 2 us: the best of many runs, so that a busy machine does not matter."""
    admit, fields = gate({}).admit, said(token="x")
    assert min(timeit.repeat(lambda: admit(fields, 0.0), number=1000, repeat=20)) / 1000 < 2e-6


# --- bearer -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [b"authorization", b"api-key", b"x-api-key"])
@pytest.mark.parametrize(("token", "caller"), [("one", "token 1"), ("other", "token 2")])
def test_bearer_takes_any_of_its_tokens(header: bytes, token: str, caller: str) -> None:
    """Plain or hashed, in the header of OpenAI's, Azure's or Anthropic's clients; it goes no further."""
    keeper = gate({"mode": "bearer", "tokens": ["one", HASHED]})
    assert keeper.admit(said(token=token, header=header), 0.0) == Admittance(caller, strip=True)
    assert header in CREDENTIALS


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "the token is missing: expected 'Authorization: Bearer <token>'"),
        (said(token="wrong"), "the token is not accepted"),
        (said(token=HASHED), "the token is not accepted"),
        ({b"authorization": b"Bearer  "}, "Invalid Bearer token format: expected 'Authorization: Bearer <token>'"),
        ({b"authorization": b"Basic b25l"}, "Invalid Bearer token format: expected 'Authorization: Bearer <token>'"),
        (
            {b"authorization": b"Bearer one two"},
            "Invalid Bearer token format: expected 'Authorization: Bearer <token>'",
        ),
        ({b"api-key": b""}, "the token is missing: expected 'Authorization: Bearer <token>'"),
    ],
)
def test_bearer_refuses_with_a_precise_sentence(fields: dict[bytes, bytes], message: str) -> None:
    """Article 5.1, row 1: a malformed header is told apart from a wrong token."""
    problem = refused(lambda: gate({"mode": "bearer", "tokens": ["one"]}).admit(fields, 0.0))
    assert (problem.status, problem.message) == (401, message)
    assert (b"www-authenticate", b"Bearer") in problem.headers
    assert "wrong" not in problem.message


def test_the_scheme_s_case_and_blanks_do_not_matter() -> None:
    """RFC 9110; the article's client with two blanks gets in, since nothing is ambiguous about it."""
    assert bearer(b"bearer   one ") == bearer(b"BEARER one") == b"one"


# --- services ---------------------------------------------------------------------------------------------------------


def test_a_service_comes_in_with_its_name_and_token() -> None:
    keeper = gate(services())
    assert keeper.admit(said("shop", "s3cret"), 0.0) == Admittance("shop", strip=True)
    assert keeper.admit(said("mail", "other", b"api-key"), 0.0) == Admittance("mail", strip=True)


def test_key_formats_are_not_judged() -> None:
    """Article 5.2."""
    keeper = gate(services(odd={"token": "sk-prod-" + "x" * 200}))
    assert keeper.admit(said("odd", "sk-prod-" + "x" * 200), 0.0).caller == "odd"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "X-Service-ID is missing"),
        (said(token="s3cret"), "X-Service-ID is missing"),
        (said(" ", "s3cret"), "X-Service-ID is missing"),
        (said("shap", "s3cret"), "service 'shap' is not known"),
        (said("Shop", "s3cret"), "service 'Shop' is not known"),
        (said("shop"), "the token of service 'shop' is missing: expected 'Authorization: Bearer <token>'"),
        (said("shop", "wrong"), "the token of service 'shop' is not accepted"),
        (said("shop", "other"), "the token of service 'shop' is not accepted"),
        (said("x" * 1000, "s3cret"), f"service '{'x' * 64}' is not known"),
        ({b"x-service-id": b"\xff\x00", b"api-key": b"k"}, "service '\xff\\x00' is not known"),
    ],
)
def test_services_are_refused_with_a_precise_sentence(fields: dict[bytes, bytes], message: str) -> None:
    problem = refused(lambda: gate(services()).admit(fields, 0.0))
    assert isinstance(problem, Unauthorized)
    assert problem.message == message
    assert rendered(problem, b"i")[0] == 401


def test_a_rate_per_service() -> None:
    """Two at once, then one a second; Retry-After is whole seconds, rounded up, and others are not touched."""
    keeper = gate(services(shop={"token": "s3cret", "rate": 0.4, "burst": 2}))
    shop = said("shop", "s3cret")
    assert [keeper.admit(shop, 10.0).caller for _ in range(2)] == ["shop", "shop"]
    problem = refused(lambda: keeper.admit(shop, 10.0))
    assert isinstance(problem, TooManyRequests)
    assert problem.message == "service 'shop' is over its rate of 0.4 requests/s (burst 2)"
    assert (b"retry-after", b"3") in rendered(problem, b"i")[1]
    assert keeper.admit(said("mail", "other"), 10.0).caller == "mail"
    assert keeper.admit(shop, 13.0).caller == "shop"


def test_a_stranger_does_not_use_up_the_rate() -> None:
    """Wrong tokens are refused before they are counted."""
    keeper = gate(services(shop={"token": "s3cret", "rate": 1, "burst": 1}))
    for _ in range(5):
        refused(lambda: keeper.admit(said("shop", "wrong"), 0.0))
    assert keeper.admit(said("shop", "s3cret"), 0.0).caller == "shop"


# --- verified elsewhere -----------------------------------------------------------------------------------------------


class Elsewhere:
    """A verifier that answers as it is told and counts its questions; `gate` holds it up."""

    def __init__(self, **answers: bool | None) -> None:
        self.answers = answers
        self.asked: list[tuple[str, bytes]] = []
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, service: str, token: bytes) -> bool | None:
        self.asked.append((service, token))
        await self.go.wait()
        return self.answers[service]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def checked(tree: Mapping[str, Any], elsewhere: Elsewhere) -> tuple[Gatekeeper, Clock]:
    clock = Clock()
    auth = {"mode": "services", "services": tree, "verify_url": "https://keys.example/verify-key"}
    return gate(auth, clock, verifier=elsewhere), clock


async def admitted(keeper: Gatekeeper, fields: dict[bytes, bytes], clock: Clock) -> Admittance:
    """What the edge does."""
    got = keeper.admit(fields, clock())
    return await keeper.verify(fields) if got.unverified else got


def test_a_token_is_verified_once_a_minute() -> None:
    """Issue 3: a 60 s cache."""
    elsewhere = Elsewhere(shop=True)
    keeper, clock = checked({"shop": {}}, elsewhere)

    async def main() -> None:
        fields = said("shop", "any")
        assert keeper.admit(fields, clock()) == Admittance("shop", strip=True, unverified=True)
        for _ in range(3):
            assert await admitted(keeper, fields, clock) == Admittance("shop", strip=True)
        assert elsewhere.asked == [("shop", b"any")]
        clock.now += FRESH - 0.1
        assert keeper.admit(fields, clock()) == Admittance("shop", strip=True)
        clock.now += 0.2
        assert keeper.admit(fields, clock()).unverified
        assert await admitted(keeper, said("shop", "another"), clock) == Admittance("shop", strip=True)

    asyncio.run(main())
    assert [token for _, token in elsewhere.asked] == [b"any", b"another"]


def test_a_no_is_a_401_and_holds_for_a_while() -> None:
    elsewhere = Elsewhere(shop=False)
    keeper, clock = checked({"shop": {}}, elsewhere)

    async def main() -> None:
        for _ in range(3):
            with pytest.raises(Unauthorized, match="the token of service 'shop' is not accepted"):
                await admitted(keeper, said("shop", "bad"), clock)
        assert len(elsewhere.asked) == 1
        clock.now += REFUSED
        elsewhere.answers["shop"] = True
        assert (await admitted(keeper, said("shop", "bad"), clock)).caller == "shop"

    asyncio.run(main())


def test_a_verifier_that_does_not_answer_makes_nobody_a_stranger() -> None:
    """The last yes holds for ten minutes more; who was never verified gets a 503, not a 401."""
    elsewhere = Elsewhere(shop=True, mail=None)
    keeper, clock = checked({"shop": {}, "mail": {}}, elsewhere)

    async def main() -> None:
        with pytest.raises(Unavailable, match="service 'mail'"):
            await admitted(keeper, said("mail", "m"), clock)
        with pytest.raises(Unavailable):  # not asked again at once
            await admitted(keeper, said("mail", "m"), clock)
        assert len(elsewhere.asked) == 1
        await admitted(keeper, said("shop", "s"), clock)
        elsewhere.answers["shop"] = None
        clock.now += FRESH
        assert (await admitted(keeper, said("shop", "s"), clock)).caller == "shop"
        clock.now += STALE - UNKNOWN
        assert (await admitted(keeper, said("shop", "s"), clock)).caller == "shop"
        clock.now += UNKNOWN
        with pytest.raises(Unavailable):
            await admitted(keeper, said("shop", "s"), clock)

    asyncio.run(main())


def test_a_no_ends_what_an_earlier_yes_gave() -> None:
    """A revoked token is not saved by a verifier that fails afterwards."""
    elsewhere = Elsewhere(shop=True)
    keeper, clock = checked({"shop": {}}, elsewhere)

    async def main() -> None:
        await admitted(keeper, said("shop", "s"), clock)
        for answer, pause in ((False, FRESH), (None, REFUSED)):
            elsewhere.answers["shop"] = answer
            clock.now += pause
            with pytest.raises(Problem):
                await admitted(keeper, said("shop", "s"), clock)

    asyncio.run(main())


def test_a_gate_that_could_not_ask_does_not_stand_open() -> None:
    """A service without a token is judged by the verifier alone."""
    with pytest.raises(ValueError, match="needs a verifier"):
        gate({"mode": "services", "services": {"shop": {}}, "verify_url": "https://keys.example/"})


def test_a_local_token_is_compared_first() -> None:
    """Both must be pleased, and a wrong token costs the verifier nothing."""
    elsewhere = Elsewhere(shop=True)
    keeper, clock = checked({"shop": {"token": "s3cret"}}, elsewhere)

    async def main() -> None:
        with pytest.raises(Unauthorized):
            await admitted(keeper, said("shop", "wrong"), clock)
        assert elsewhere.asked == []
        assert (await admitted(keeper, said("shop", "s3cret"), clock)).caller == "shop"

    asyncio.run(main())


def test_one_question_for_all_that_wait_and_a_cancel_hurts_only_its_own() -> None:
    """Twenty requests with the same new token; the first one's client leaves."""
    elsewhere = Elsewhere(shop=True)
    keeper, clock = checked({"shop": {"rate": 1000, "burst": 19}}, elsewhere)

    async def main() -> None:
        elsewhere.go.clear()
        waiting = [asyncio.create_task(admitted(keeper, said("shop", "s"), clock)) for _ in range(20)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        elsewhere.go.set()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert results[1:] == [Admittance("shop", strip=True)] * 19
        assert len(elsewhere.asked) == 2
        assert keeper._asking == {}
        with pytest.raises(TooManyRequests):  # the rate counts verified requests, each once
            keeper.admit(said("shop", "s"), clock())

    asyncio.run(main())


def test_guessed_tokens_cost_no_memory() -> None:
    elsewhere = Elsewhere(shop=False)
    keeper, clock = checked({"shop": {}}, elsewhere)

    async def main() -> None:
        for number in range(REMEMBERED + 50):
            with pytest.raises(Unauthorized):
                await admitted(keeper, said("shop", f"guess {number}".replace(" ", "")), clock)

    asyncio.run(main())
    assert len(keeper._answers) == REMEMBERED


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (200, True),
        (204, True),
        (401, False),
        (403, False),
        (404, None),
        (500, None),
        (429, None),
        (302, None),
        (0, None),
    ],
)
def test_what_the_verifier_s_status_means(status: int, answer: bool | None) -> None:
    """Only 401 and 403 are a no: a wrong path must not lock everybody out as strangers."""
    heard: list[tuple[Address, Question, Headers]] = []

    async def asking(address: Address, question: Question, headers: Headers = (), limit: float | None = None) -> Reply:
        heard.append((address, question, headers))
        return Reply(status)

    ask = verifier(asking, "https://keys.example:8443/v1/verify-key?x=1")
    result: Awaitable[bool | None] = ask("shop", b"s3cret")
    assert asyncio.run(asyncio.wait_for(result, 30)) is answer
    ((address, question, headers),) = heard
    assert str(address) + question.path == "https://keys.example:8443/v1/verify-key?x=1"
    assert question.json is None
    assert headers == ((b"x-service-id", b"shop"), (b"authorization", b"Bearer s3cret"))


def test_one_known_token() -> None:
    """As the admin API uses it."""
    known = Secret("adm1n")
    assert accepted(b"Bearer adm1n", known)
    assert not accepted(b"Bearer admin", known)
    assert not accepted(None, known)
    with pytest.raises(Unauthorized):
        accepted(b"adm1n", known)


def test_no_token_is_shown() -> None:
    """Neither by the gate's repr nor by any refusal."""
    keeper = gate(services())
    problem = refused(lambda: keeper.admit(said("shop", "hidden-guess"), 0.0))
    shown = repr(keeper) + repr(problem) + str(rendered(problem, b"i"))
    assert "s3cret" not in shown
    assert "hidden" not in shown
