"""Which candidates can serve a request, and when it is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autohedge.checking import Checked, Checker, route_of
from autohedge.core.problems import BadRequest, NotFound, Unavailable
from autohedge.core.types import Kind
from autohedge.rules.retirement import Redirect
from tests.support.desk import Desk, call, reading, run
from tests.support.world import backend, lesson, model


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}).encode()


LONG = [{"role": "user", "content": "x" * 5000}]


def checked(desk: Desk, raw: bytes, **fields: Any) -> Checked:
    one, read = call(raw, **fields), reading(raw)
    route = route_of(one, read.ask, desk.snapshot, desk.tools)
    checker = Checker(desk.tools)
    plain = checker.plainly(one, read, desk.snapshot, route)
    made: Checked = plain or run(checker.closely(one, read, desk.snapshot, route))
    return made


def two_sizes(**tokens: int) -> Desk:
    desk = Desk("", **tokens)
    desk.add("a", backend("small", "s:1"), lesson(model("m", context=100)))
    desk.add("b", backend("large", "l:1"), lesson(model("m", context=1000)))
    return desk


def test_a_small_request_is_passed_without_asking_anybody() -> None:
    desk = Desk()
    desk.add("a", backend("roomy", "r:1"), lesson(model("m", context=32768)))
    assert len(checked(desk, body()).route.candidates) == 1
    assert desk.counter.asked == []


def test_the_candidate_that_cannot_fit_is_left_out() -> None:
    """T34: the smaller model is skipped, the larger one serves."""
    names = [one.backend.name for one in checked(two_sizes(small=150, large=150), body()).route.candidates]
    assert names == ["large"]


def test_a_prompt_is_refused_on_the_engine_s_count_alone() -> None:
    """T38: an estimate never rejects; the message names count, limit and origin."""
    with pytest.raises(BadRequest) as raised:
        checked(two_sizes(small=1500, large=1500), body(messages=LONG))
    assert raised.value.code == "context_length_exceeded"
    assert "1000" in raised.value.message
    assert checked(two_sizes(), body(messages=LONG)).route.candidates  # nobody could count: it is sent


def test_max_tokens_over_every_window_is_refused() -> None:
    """Article 4.3: max_tokens 1000000 never reaches an engine."""
    with pytest.raises(BadRequest) as raised:
        checked(two_sizes(), body(max_tokens=1_000_000))
    assert raised.value.param == "max_tokens"
    assert raised.value.details[0].limit == 1000


def test_a_refusal_that_no_count_would_change_asks_no_engine() -> None:
    """Issue 2: a 400 for max_tokens within half a millisecond; a prompt that may be too long is still counted and told."""
    desk = Desk("", roomy=9000)
    desk.add("a", backend("roomy", "r:1"), lesson(model("m", context=4096)))
    with pytest.raises(BadRequest):
        checked(desk, body(max_tokens=1_000_000))
    assert desk.counter.asked == []
    with pytest.raises(BadRequest) as raised:
        checked(desk, body(max_tokens=1_000_000, messages=LONG))
    assert desk.counter.asked == ["roomy"]
    assert {detail.param for detail in raised.value.details} == {"max_tokens", "messages"}


def test_those_that_count_alike_are_asked_once_and_told_once() -> None:
    """A hundred workers of one model: a hundred questions, one after the other, made one prompt wait for seconds."""
    sizes = {f"w{number}": 9000 for number in range(100)}
    desk = Desk("", other=9000, **sizes)
    for number, name in enumerate(sizes):
        desk.add(f"s{number}", backend(name, f"h{number}:1"), lesson(model("m", context=4096)))
    desk.add("t", backend("other", "o:1"), lesson(model("m", context=4096), kind=Kind.SGLANG))
    with pytest.raises(BadRequest) as raised:
        checked(desk, body(messages=LONG))
    assert desk.counter.asked == ["w0", "other"]
    assert len({(detail.code, detail.limit) for detail in raised.value.details}) == len(raised.value.details) <= 2


def test_where_one_cannot_count_another_is_asked_and_no_third() -> None:
    """What nobody counts is sent."""
    for sizes, asked, candidates in (({"w1": 9000}, ["w0", "w1"], 0), ({"w2": 9000}, ["w0", "w1"], 3)):
        desk = Desk("fallback_chain: [{provider: swarm, model: big}]", **sizes)
        for number in range(3):
            desk.add(f"s{number}", backend(f"w{number}", f"h{number}:1"), lesson(model("m", context=4096)))
        desk.add("b", backend("large", "x:1"), lesson(model("big", context=100_000)))
        assert len(checked(desk, body(messages=LONG)).route.candidates) == candidates
        assert desk.counter.asked == asked


def test_every_finding_is_told_at_once_and_counted() -> None:
    desk = two_sizes()
    with pytest.raises(BadRequest) as raised:
        checked(desk, body(temperature="hot", tool_choice="banana"))
    assert {detail.param for detail in raised.value.details} == {"temperature", "tool_choice"}
    assert sum(desk.tools.meters.counters["autohedge_rejects_total"].values()) == len(raised.value.details)


def test_a_rung_that_fits_saves_a_request_that_its_own_backends_refuse() -> None:
    """The 400 is kept for the case that the rung is not there either."""
    desk = Desk("fallback_chain: [{provider: swarm, model: big}]", own=5000, other=5000)
    desk.add("a", backend("own", "o:1"), lesson(model("m", context=100)))
    desk.add("b", backend("other", "x:1"), lesson(model("big", context=100_000)))
    found = checked(desk, body())
    assert found.route.candidates == ()
    assert found.refused is not None
    assert len(found.rungs) == 1


@pytest.mark.parametrize(("value", "rungs"), [(b"1", 0), (b"true", 0), (b"0", 1)])
def test_a_caller_can_refuse_fallback(value: bytes, rungs: int) -> None:
    """X-AutoHedge-No-Fallback."""
    desk = Desk("fallback_chain: [{provider: swarm, model: big}]")
    desk.add("a", backend("own", "o:1"), lesson(model("m", context=32768)))
    assert len(checked(desk, body(), headers=[(b"x-autohedge-no-fallback", value)]).rungs) == rungs


def test_validation_can_be_off() -> None:
    desk = Desk("validation: {mode: off}")
    desk.add("a", backend("own", "o:1"), lesson(model("m", context=10)))
    assert checked(desk, body(temperature="hot", max_tokens=10**9)).route.candidates


def test_unknown_models_name_the_nearest() -> None:
    desk = two_sizes()
    with pytest.raises(NotFound) as raised:
        checked(desk, body(model="n"))
    assert raised.value.code == "model_not_found"
    desk.add("c", backend("x", "x:2"), lesson(model("qwen2-7b")))
    with pytest.raises(NotFound, match="did you mean qwen2-7b"):
        checked(desk, body(model="qwen2-7B"))


def test_a_model_that_somebody_may_serve_is_no_404() -> None:
    """R40: its backend was never heard and nobody declared its models: the caller should come again."""
    desk = two_sizes()
    desk.add("c", backend("late", "late:1"))
    with pytest.raises(Unavailable, match=r"still to come: late$") as raised:
        checked(desk, body(model="n"))
    assert (raised.value.code, raised.value.retry_after) == ("no_backend", 2.0)


@pytest.mark.parametrize("how", ["declared", "heard", "closed"])
def test_a_model_that_nobody_will_serve_stays_a_404(how: str) -> None:
    """Whose models are declared serves no others; who told them, neither; who wants a key that we have not will never tell."""
    desk = two_sizes()
    desk.add("c", backend("late", "late:1", models=("x",) if how == "declared" else ()))
    if how == "heard":
        desk.tools.registry.learn("late@late:1", lesson(model("x")), desk.now)
    if how == "closed":
        desk.counter.closed.add("late@late:1")
    with pytest.raises(NotFound):
        checked(desk, body(model="n"))


def test_no_model_named_is_the_only_one_or_a_400() -> None:
    """Azure clients and llama.cpp's send none: fine while there is one."""
    desk = Desk()
    desk.add("a", backend("own", "o:1"), lesson(model("m", context=32768)))
    raw = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
    assert checked(desk, raw).route.candidates[0].served == "m"
    desk.add("b", backend("more", "o:2"), lesson(model("n")))
    with pytest.raises(BadRequest, match="model: required"):
        checked(desk, raw)


@pytest.mark.parametrize(
    ("config", "headers", "target", "goes"),
    [
        ("fallback_chain: [{provider: swarm, model: n}]", [], "n", "n"),
        ("fallback_chain: [{provider: swarm, model: n}]", [(b"x-autohedge-no-fallback", b"1")], "n", "m"),
        ("fallback_chain: [{provider: swarm, model: n}]\nmodels: {m: {fallback: off}}", [], "n", "m"),
        ("", [], "n", "m"),
        ("fallback_chain: [{provider: swarm, model: n}]", [], "left", "m"),
    ],
    ids=[
        "redirected",
        "the caller wants no other",
        "the operator wants no other",
        "the chain is gone",
        "so is the target",
    ],
)
def test_where_a_redirected_model_goes(config: str, headers: list[Any], target: str, goes: str) -> None:
    """Article 3.4; a redirect is a fallback, so what switches that off switches it off as well."""
    desk = Desk(config)
    desk.add("a", backend("own", "o:1"), lesson(model("m", context=32768)))
    desk.add("b", backend("more", "o:2"), lesson(model("n", context=32768)))
    desk.tools.retirements.retire("own", "m", "operator", desk.now)
    desk.tools.retirements._redirects["m"] = (Redirect("m", target, "own", 3), "m")
    desk.tools.retirements._refresh()
    assert checked(desk, body(), headers=headers).route.model == goes


def test_a_model_s_other_names_lead_to_it() -> None:
    desk = Desk("models: {m: {aliases: [gpt-4o]}}")
    desk.add("a", backend("own", "o:1"), lesson(model("m", context=32768)))
    assert checked(desk, body(model="gpt-4o")).route.model == "m"


def test_a_model_with_a_chain_of_its_own_is_known_without_backends() -> None:
    """Traefik #9907: a service without a healthy task is a 503, not a 404."""
    desk = Desk("models: {gone: {fallback: [{provider: swarm, model: m}]}}")
    desk.add("a", backend("own", "o:1"), lesson(model("m", context=32768)))
    found = checked(desk, body(model="gone"))
    assert found.route.candidates == ()
    assert [rung.models for rung in found.rungs] == [("m",)]
