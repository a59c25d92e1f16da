"""The generated model: small, the same from the same seed, and different from another one."""

from __future__ import annotations

from pathlib import Path

import pytest

gguf = pytest.importorskip("gguf")

from autohedge.demo.tiny_model import Shape, main, write_model  # noqa: E402 - needs the wheel of the line above


def fields(path: Path) -> dict[str, object]:
    return {name: field.contents() for name, field in gguf.GGUFReader(str(path)).fields.items()}


@pytest.mark.parametrize("embeds", [False, True], ids=["chat", "embeddings"])
def test_the_file_says_what_it_is(tmp_path: Path, embeds: bool) -> None:
    """Window, width and kind are those that were asked for; it takes half a megabyte."""
    path = tmp_path / "m.gguf"
    write_model(path, Shape(window=123, width=32, layers=1, embeds=embeds))
    told = fields(path)
    kind = "bert" if embeds else "llama"
    assert told["general.architecture"] == kind
    assert told[f"{kind}.context_length"] == 123
    assert told[f"{kind}.embedding_length"] == 32
    assert told[f"{kind}.block_count"] == 1
    assert path.stat().st_size < 1_000_000


def test_a_model_that_decides(tmp_path: Path) -> None:
    """llama.cpp serves System One with a model that names its kind of decision and has a template of that name."""
    path = tmp_path / "m.gguf"
    assert main([str(path), "--width", "32", "--layers", "1", "--decides"]) == 0
    told = fields(path)
    assert told["llama.decision.type"] == "openjev"
    assert "options" in str(told["tokenizer.chat_template.systemone"])
    assert "messages" in str(told["tokenizer.chat_template"])


def test_a_seed_is_a_model(tmp_path: Path) -> None:
    """Two replicas of one seed answer alike, two seeds do not."""
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path, seed in zip(paths, ("1", "1", "2"), strict=True):
        assert main([str(path), "--seed", seed, "--width", "32", "--layers", "1"]) == 0
    one, same, other = (path.read_bytes() for path in paths)
    assert one == same != other
    assert len(one) == len(other)
