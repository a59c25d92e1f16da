"""The body of GET /v1/models."""

from __future__ import annotations

from autohedge.core.types import Snapshot
from autohedge.memory.listing import models_page, one_model
from autohedge.memory.registry import Registry
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


def test_nothing_known() -> None:
    """An empty house answers with empty lists, an unknown model with None."""
    assert models_page(Snapshot()) == {"object": "list", "data": [], "models": []}
    assert one_model(snapshot(), "nope") is None
