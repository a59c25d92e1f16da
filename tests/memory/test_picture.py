"""Which names a replica answers for, and the routes that follow."""

from __future__ import annotations

from typing import Any

from autohedge.core.types import Fact, Kind, LearnedModel, Lesson, Limits, Rank, Replica, Seat
from autohedge.memory.merging import Backend
from autohedge.memory.picture import Offers, bounded, offers_of, replica_id
from tests.support.world import backend, failed, lesson, model, place, routes_of, told


def offers(learned: Lesson | None, *names: str, taught: dict[str, Limits] | None = None, **fields: Any) -> Offers:
    spec = backend(names[0] if names else "svc", "t1", **fields)
    replica = Replica(replica_id(spec.name, spec.addresses[0]), spec.name, spec.addresses[0], Seat())
    return offers_of(replica, Backend(spec, names or ("svc",)), learned, taught or {})


def served(offer: Offers) -> dict[str, tuple[str, bool]]:
    return {name: (candidate.served, candidate.known) for name, candidate in offer.firm.items()}


def test_ids() -> None:
    """The id is readable and tells IPv6 and prefixes apart."""
    assert replica_id("q", place("10.0.1.4:80")) == "q@10.0.1.4:80"
    assert replica_id("q", place("h:80/base")) == "q@h:80/base"
    address = place("h:80")
    assert replica_id("q", type(address)("::1", 8000)) == "q@[::1]:8000"


def test_learned_ids_and_names_are_offered_under_the_id() -> None:
    """The id is what is sent, whatever name the client used."""
    offer = offers(lesson(model("qwen2:7b", "qwen2", "latest"), model("lora")))
    assert served(offer) == {
        "qwen2:7b": ("qwen2:7b", True),
        "qwen2": ("qwen2:7b", True),
        "latest": ("qwen2:7b", True),
        "lora": ("lora", True),
    }
    assert offer.spare == {}


def test_the_service_name_stands_for_the_only_model() -> None:
    """engines e7: the article asks for "vllm-qwen2-7b", its engine serves "/models/qwen2-7b-instruct"."""
    offer = offers(lesson(model("/models/qwen2-7b-instruct")), "vllm-qwen2-7b", "other")
    assert list(offer.spare) == ["vllm-qwen2-7b", "other"]
    assert {candidate.served for candidate in offer.spare.values()} == {"/models/qwen2-7b-instruct"}
    assert all(candidate.known for candidate in offer.spare.values())


def test_the_service_name_of_several_models_says_nothing() -> None:
    """Two models on the engine, or two declared: the service name is no model."""
    assert offers(lesson(model("a"), model("b"))).spare == {}
    assert offers(None, models=("a", "b")).spare == {}


def test_a_replica_that_told_nothing_is_reached_by_its_backend_s_name() -> None:
    """Not heard yet, or closed to us because only clients have its key: known, not confirmed, any model name goes through."""
    spare = offers(None).spare
    assert [(name, one.served, one.known) for name, one in spare.items()] == [("svc", "", False)]


def test_before_the_engine_was_asked_declared_models_are_offered_unconfirmed() -> None:
    """A declared model is a candidate with known=False; the service name stands for the only declared one."""
    offer = offers(None, models=("m",))
    assert served(offer) == {"m": ("m", False)}
    assert [candidate.served for candidate in offer.spare.values()] == ["m"]
    assert served(offers(failed(), models=("m",))) == {"m": ("m", False)}


def test_a_declared_name_stands_for_the_engines_only_model() -> None:
    """The label says "qwen", the engine lists a path: the path is sent."""
    assert served(offers(lesson(model("/models/q")), models=("qwen",))) == {
        "/models/q": ("/models/q", True),
        "qwen": ("/models/q", True),
    }


def test_a_declared_name_among_several_models_stays_unconfirmed() -> None:
    """Nobody guesses which of two models was meant."""
    offer = offers(lesson(model("a"), model("b")), models=("b", "c"))
    assert served(offer) == {"a": ("a", True), "b": ("b", True), "c": ("c", False)}


def test_an_engine_that_loads_by_name_never_answers_for_another_model() -> None:
    """Ollama with one pulled model must not serve it under every declared name; nor an external provider."""
    offer = offers(lesson(model("llama3"), kind=Kind.OLLAMA), models=("qwen2",))
    assert served(offer)["qwen2"] == ("qwen2", False)
    offer = offers(lesson(model("llama3"), kind=Kind.OPENAI), models=("qwen2",), external=True)
    assert served(offer)["qwen2"] == ("qwen2", False)


def test_azure_lists_nothing() -> None:
    """openai-python#460: deployments are not listed, so what is declared counts as known."""
    offer = offers(lesson(kind=Kind.AZURE), models=("gpt",), external=True, kind=Kind.AZURE)
    assert served(offer) == {"gpt": ("gpt", True)}
    assert served(offers(None, models=("gpt",), external=True, kind=Kind.AZURE)) == {"gpt": ("gpt", True)}


def test_an_alias_is_the_operators_word() -> None:
    """An alias wins over a model of that name; its target may be any name of the engine, or not listed yet."""
    offer = offers(lesson(model("m"), model("m-instruct", "mi")), aliases={"m": "mi", "x": "gone"})
    assert served(offer)["m"] == ("m-instruct", True)
    assert served(offer)["x"] == ("gone", False)


def test_an_external_account_serves_only_what_was_declared() -> None:
    """What else the account could buy is not offered."""
    offer = offers(lesson(model("gpt-a"), model("gpt-b")), models=("gpt-a",), external=True)
    assert served(offer) == {"gpt-a": ("gpt-a", True)}
    assert list(offers(lesson(model("gpt-a"), model("gpt-b")), external=True).firm) == ["gpt-a", "gpt-b"]


def test_an_engine_that_takes_any_name() -> None:
    """TGI ignores `model`: a model without an id is offered under declared names and sent as it came."""
    offer = offers(lesson(model(""), kind=Kind.TGI), models=("m",))
    assert served(offer) == {"m": ("", True)}
    assert offer.spare["svc"].served == ""


def test_limits_come_from_engine_hints_and_refusals() -> None:
    """Each figure from its best origin; hints hold for every model of the backend."""
    hints = Limits(context=Fact(1, "label", Rank.LABEL), max_output=Fact(64, "config", Rank.CONFIG))
    taught = {"a": Limits(context=told(300, 9.0, Rank.ERROR))}
    offer = offers(lesson(model("a", context=400, at=1.0), model("b")), hints=hints, taught=taught)
    limits = {name: candidate.limits for name, candidate in offer.firm.items()}
    assert limits["a"].context == told(300, 9.0, Rank.ERROR)
    assert limits["b"].context == Fact(1, "label", Rank.LABEL)
    assert limits["a"].max_output == limits["b"].max_output == hints.max_output


def test_the_kind_is_declared_or_learned() -> None:
    """A declared kind stands; AUTO is what the engine turned out to be, or AUTO before anybody asked."""
    assert offers(lesson(model("a")), kind=Kind.SGLANG).firm["a"].kind is Kind.SGLANG
    assert offers(lesson(model("a"))).firm["a"].kind is Kind.VLLM
    assert offers(None, models=("a",)).firm["a"].kind is Kind.AUTO


def test_a_spare_name_gives_way_to_a_real_one() -> None:
    """A service called like somebody else's model does not answer for it."""
    real = offers(lesson(model("qwen")), "real")
    named = offers(lesson(model("llama")), "qwen")
    routes = routes_of([named, real])
    assert [candidate.replica.backend for candidate in routes["qwen"].candidates] == ["real"]
    assert routes_of([named])["qwen"].candidates[0].served == "llama"


def test_candidates_are_ordered_by_priority_then_as_given() -> None:
    """The lower number first; the order of the sources otherwise."""
    given = [
        offers(lesson(model("m")), "c", priority=90),
        offers(lesson(model("m"), kind=Kind.SGLANG), "a"),
        offers(lesson(model("m", owned_by="me")), "b", priority=10),
        offers(lesson(model("m")), "d"),
    ]
    route = routes_of(given)["m"]
    assert [candidate.replica.backend for candidate in route.candidates] == ["b", "a", "d", "c"]
    assert route.kinds == {Kind.VLLM, Kind.SGLANG}
    assert route.owned_by == "me"


def test_a_lesson_is_bounded() -> None:
    """An engine cannot fill the memory with names, and a lesson without a time gets one."""
    many = (*(LearnedModel(f"m{n}", ("x" * 300, "ok")) for n in range(50)), LearnedModel("y" * 257))
    short = bounded(Lesson(Kind.VLLM, many), 5.0, most=10)
    assert len(short.models) == 10
    assert short.models[0].names == ("ok",)
    assert short.at == 5.0
    assert bounded(Lesson(Kind.VLLM, many[-1:], 3.0), 5.0) == Lesson(Kind.VLLM, (), 3.0)


def test_an_exact_backend_serves_what_it_declares_and_nothing_else() -> None:
    """A worker registered for dex: the name goes out as it came in, with the limits of the engine's own or only model."""
    for heard in (lesson(model("/models/nimble", context=4096)), lesson(model("dex", context=4096), model("other"))):
        offer = offers(heard, models=("dex",), exact=True)
        assert served(offer) == {"dex": ("dex", True)}
        assert offer.firm["dex"].kind is Kind.VLLM
        context = offer.firm["dex"].limits.context
        assert context is not None
        assert context.value == 4096


def test_a_wildcard_stands_under_no_name() -> None:
    """It is asked only where nobody has the model: what its engine lists makes it no exact candidate."""
    assert served(offers(lesson(model("dex")), exact=True, takes_any=True)) == {}


def test_what_is_usual_for_a_kind_bounds_decisions() -> None:
    """Until somebody knows better: the operator of this Ollama does."""
    hints = Limits(counts={"max_options": Fact(100, "model_limits.max_options", Rank.CONFIG)})
    offer = offers(lesson(model("m"), kind=Kind.OLLAMA), hints=hints)
    counts = {name: fact.value for name, fact in offer.firm["m"].limits.counts.items()}
    assert (counts["max_options"], counts["max_questions"]) == (100, 64)
    assert not offers(lesson(model("m"), kind=Kind.VLLM)).firm["m"].limits.counts
