"""What labels may say, and what becomes of those that are wrong, misplaced or misspelt."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.types import Kind
from autohedge.rules.labels import BLANK, LONGEST, MANY, Marks, is_model, read


def marks(**labels: str) -> Marks:
    return read({f"autohedge.{name}": text for name, text in labels.items()})


@pytest.mark.parametrize(
    ("label", "text", "value"),
    [
        ("enable", "true", True),
        ("enable", "False", False),
        ("enable", " yes ", True),
        ("enable", "0", False),
        ("port", "8000", 8000),
        ("provider", "vllm", Kind.VLLM),
        ("provider", "llama.cpp", Kind.LLAMACPP),
        ("provider", "auto", None),
        ("max_model_len", "32768", 32768),
        ("pool", "gpu-a", "gpu-a"),
        ("priority", "0", 0),
        ("weight", "3", 3),
        ("concurrency", "16", 16),
    ],
)
def test_every_label_says_its_own(label: str, text: str, value: Any) -> None:
    found = marks(**{label: text})
    assert getattr(found, label) == value
    assert found.notes == ()


def test_models_and_aliases_are_lists() -> None:
    """Each name once, blanks do not count; an alias without a target is for the only model."""
    assert marks(model="Qwen/Qwen2-7B").models == ("Qwen/Qwen2-7B",)
    assert marks(models="a, b,a,").models == ("a", "b")
    assert marks(aliases="gpt-4=a, fast").aliases == {"gpt-4": "a", "fast": ""}


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("enable", "maybe"),
        ("port", "0"),
        ("port", "70000"),
        ("port", "8000/tcp"),
        ("port", "-1"),
        ("port", "٣"),
        ("provider", "vlm"),
        ("max_model_len", "32k"),
        ("max_model_len", "0"),
        ("max_model_len", "9" * 13),
        ("pool", "a b"),
        ("priority", "-1"),
        ("weight", "0"),
        ("weight", "1001"),
        ("concurrency", "many"),
        ("model", ""),
        ("model", "a,b"),
        ("model", "http://10.0.0.1:8000"),
        ("model", "a b"),
        ("model", "a\nb"),
        ("model", "x" * 257),
        ("models", ",".join(f"m{i}" for i in range(MANY + 1))),
        ("models", "x" * (LONGEST + 1)),
        ("aliases", "a=http://evil"),
        ("aliases", "=a"),
        ("aliases", ""),
    ],
)
def test_a_value_that_cannot_be_read_is_left_out_and_named(label: str, text: str) -> None:
    """The service stays; the note names the label and never the value (which may be a secret in the wrong place)."""
    found = marks(**{label: text, "pool" if label != "pool" else "weight": "7"})
    default = getattr(BLANK, label if label != "model" else "models")
    assert getattr(found, label if label != "model" else "models") == default
    assert len(found.notes) == 1
    assert found.notes[0].startswith(f"label autohedge.{label} is ignored: it ")
    assert len(text) < 4 or text not in found.notes[0]
    assert found.pool == "7" or found.weight == 7


def test_the_near_provider_is_named() -> None:
    assert marks(provider="vlm").notes == (
        "label autohedge.provider is ignored: it names no provider; did you mean vllm?",
    )


def test_a_label_of_the_container_counts_and_is_told_where_it_belongs() -> None:
    """Compose: `labels:` instead of `deploy.labels:` (traefik #994, #1586, #2582, #5620, #5732)."""
    found = read({}, {"autohedge.enable": "true"})
    assert found.enable is True
    assert found.notes == (
        "label autohedge.enable stands on the container; it counts, but belongs to the service (deploy.labels)",
    )
    assert read({"autohedge.port": "1"}, {"autohedge.port": "2"}).port == 1


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("autohedge.enabled", "autohedge.enable"),
        ("autohedge.Port", "autohedge.port"),
        ("autohedge.max-model-len", "autohedge.max_model_len"),
        ("autohdge.enable", "autohedge.enable"),
        ("autohegde.model", "autohedge.model"),
        ("AutoHedge.port", "autohedge.port"),
        ("auto-hedge.weight", "autohedge.weight"),
        ("auto_hedge.pool", "autohedge.pool"),
        ("autohedge-enable", "autohedge.enable"),
        ("autohedge_enable", "autohedge.enable"),
        ("autohedge.modle", "autohedge.model"),
    ],
)
def test_a_label_that_is_nearly_ours_names_the_one_that_was_meant(key: str, meant: str) -> None:
    found = read({key: "x"})
    assert found.notes == (f"label {key} is not known; did you mean {meant}?",)
    assert found.models == ()
    assert found.enable is None


@pytest.mark.parametrize(
    "key",
    [
        "com.docker.stack.namespace",
        "traefik.enable",
        "autoscale.enable",
        "autoheal",
        "author.name",
        "org.opencontainers.image.authors",
        "",
    ],
)
def test_labels_of_others_need_no_word(key: str) -> None:
    assert read({key: "true"}) is BLANK


def test_a_label_that_is_ours_and_near_nothing_lists_all() -> None:
    assert "known are autohedge.enable, " in marks(url="http://h").notes[0]


@pytest.mark.parametrize("name", ["m", "Qwen/Qwen2-7B", "/models/q.gguf", "qwen2:7b", "a@b+c", "x" * 256])
def test_names_of_models(name: str) -> None:
    assert is_model(name)


@pytest.mark.parametrize(
    "name", ["", "a b", "http://h/m", "ä", "a\x00", "-a", "x" * 257, "a;b", "$M", "{{.Task.Slot}}"]
)
def test_what_is_no_name_of_a_model(name: str) -> None:
    assert not is_model(name)


@given(st.dictionaries(st.text(max_size=40), st.text(max_size=40), max_size=8))
def test_no_labels_break_it(labels: dict[str, str]) -> None:
    """Whatever people write: something readable comes out, and its notes are short and printable."""
    found = read(labels, labels)
    assert all(note.isprintable() and len(note) < 400 for note in found.notes)
    assert all(map(is_model, found.models))
