"""The body of GET /v1/models."""

from __future__ import annotations

from autohedge.core.types import Snapshot
from autohedge.memory.listing import models_page, one_model
from autohedge.memory.registry import Registry
from autohedge.settings.upstream import StaticModel
from tests.support.world import backend, lesson, model, seen


def snapshot() -> Snapshot:
    registry = Registry()
    registry.apply("static", seen(backend("b", "t1", "t2"), backend("a", "t3")), 1.0)
    registry.learn("b@t1:8000", lesson(model("dex", context=400, owned_by="vllm"), model("aux")), 1.0)
    registry.learn("b@t2:8000", lesson(model("dex", context=800, owned_by="vllm")), 1.0)
    registry.learn("a@t3:8000", lesson(model("jev")), 1.0)
    return registry.snapshot


def test_one_body_for_both_kinds_of_clients() -> None:
    """systemone fact 7: `data` for OpenAI clients, `models` with three strings each for typesafe-sdk."""
    page = models_page(snapshot())
    assert list(page) == ["object", "data", "models"]
    assert [entry["id"] for entry in page["data"]] == ["a", "aux", "b", "dex", "jev"]
    assert [entry["name"] for entry in page["models"]] == ["a", "aux", "b", "dex", "jev"]
    for entry in page["models"]:
        assert set(entry) == {"name", "description", "release_date"}
        assert all(isinstance(value, str) for value in entry.values())


def test_an_entry_as_the_eidex_seed_shows_it() -> None:
    """eidex: id, object, created, owned_by, root, parent, max_model_len; the largest window of the places counts."""
    assert one_model(snapshot(), "dex") == {
        "id": "dex",
        "object": "model",
        "created": 0,
        "owned_by": "vllm",
        "root": "dex",
        "parent": None,
        "max_model_len": 800,
    }


def test_an_unknown_window_is_left_out() -> None:
    """Unknown is not 0."""
    entry = one_model(snapshot(), "jev")
    assert entry is not None
    assert "max_model_len" not in entry
    assert entry["owned_by"] == "autohedge"


def test_only_what_is_usable_is_listed() -> None:
    """A model stays while one place can serve it."""
    page = models_page(snapshot(), lambda candidate: candidate.replica.id == "b@t2:8000")
    assert [entry["id"] for entry in page["data"]] == ["b", "dex"]
    assert one_model(snapshot(), "jev", lambda candidate: candidate.replica.backend == "b") is None


def test_a_redirected_model_is_listed_as_what_serves_it_now() -> None:
    """Article 3.4: also one whose own backend is gone from the picture; a target that nobody serves is no entry."""
    moved = {"jev": "dex", "left": "dex", "lost": "nowhere"}
    listed = {entry["id"]: entry for entry in models_page(snapshot(), redirects=moved)["data"]}
    for name in ("jev", "left"):
        assert listed[name] == listed["dex"] | {"id": name}
        assert one_model(snapshot(), name, redirects=moved) == listed[name]
    assert listed["dex"]["root"] == "dex"
    assert "lost" not in listed


SEED = StaticModel(id="dex", created=1790921023, owned_by="sglang", root="dex", parent=None, max_model_len=262144)


def test_static_entries_stand_before_what_is_served() -> None:
    """E13, E15: eidex's `models[]` as it is written, served or not; then the rest by name, none of them twice."""
    page = models_page(snapshot(), static=[StaticModel(id="zoo"), SEED, StaticModel(id="dex")])
    assert [entry["id"] for entry in page["data"]] == ["zoo", "dex", "a", "aux", "b", "jev"]
    assert [entry["name"] for entry in page["models"]] == ["zoo", "dex", "a", "aux", "b", "jev"]
    assert page["data"][1] == {
        "id": "dex",
        "object": "model",
        "created": 1790921023,
        "owned_by": "sglang",
        "root": "dex",
        "parent": None,
        "max_model_len": 262144,
    }


def test_the_seed_s_own_answer() -> None:
    """E16: `parent` is there and null; the order of the keys is the seed's."""
    (entry,) = models_page(Snapshot(), static=[SEED])["data"]
    assert list(entry) == ["id", "object", "created", "owned_by", "root", "parent", "max_model_len"]


def test_a_static_entry_has_defaults_and_what_was_learned() -> None:
    """facts 8.26: created 0, owner sglang, root is the id, no parent; a window only where somebody knows it."""
    assert one_model(snapshot(), "dex", static=[StaticModel(id="dex")]) == {
        "id": "dex",
        "object": "model",
        "created": 0,
        "owned_by": "sglang",
        "root": "dex",
        "parent": None,
        "max_model_len": 800,
    }
    bare = one_model(Snapshot(), "x", static=[StaticModel(id="x", parent="base", root="y")])
    assert bare is not None
    assert (bare["root"], bare["parent"]) == ("y", "base")
    assert "max_model_len" not in bare


def test_a_date_is_the_static_entry_s_own() -> None:
    """typesafe-sdk wants a date as text; one beyond all calendars is none."""
    page = models_page(Snapshot(), static=[SEED, StaticModel(id="x", created=10**15)])
    assert [entry["release_date"] for entry in page["models"]] == ["2026-10-02", "1970-01-01"]


def test_what_is_behind_a_wildcard_is_listed() -> None:
    """It stands in no route, since it is asked only where nobody has the model."""
    registry = Registry()
    registry.apply("workers", seen(backend("w", "t1", exact=True, takes_any=True)), 1.0)
    registry.learn("w@t1:8000", lesson(model("nimble", context=400, owned_by="sglang")), 1.0)
    assert [entry["id"] for entry in models_page(registry.snapshot)["data"]] == ["nimble"]
    entry = one_model(registry.snapshot, "nimble")
    assert entry is not None
    assert (entry["owned_by"], entry["max_model_len"]) == ("sglang", 400)


def test_nothing_known() -> None:
    """An empty house answers with empty lists, an unknown model with None."""
    assert models_page(Snapshot()) == {"object": "list", "data": [], "models": []}
    assert one_model(snapshot(), "nope") is None
