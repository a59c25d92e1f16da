"""Vectors: the same text has the same one everywhere; base64 is the same numbers."""

from __future__ import annotations

import base64
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.engine.vectors import packed, sparse, vector
from tests.engine.calls import Serve, ask


@given(st.text(max_size=20), st.integers(1, 64))
def test_vectors_are_units_and_repeat(text: str, size: int) -> None:
    found = vector(text, size)
    assert len(found) == size
    assert math.isclose(sum(number * number for number in found), 1.0, abs_tol=1e-3)
    assert found == vector(text, size)


def test_base64_is_little_endian_floats() -> None:
    numbers = vector("a", 3)
    assert list(struct.unpack("<3f", base64.b64decode(packed(numbers)))) == pytest.approx(numbers, abs=1e-6)


def test_sparse_is_sorted_and_has_the_words() -> None:
    found = sparse("a b a")
    assert found["indices"] == sorted(found["indices"])
    assert len(found["indices"]) == len(found["values"]) == 2


def test_embeddings_in_both_encodings(serve: Serve) -> None:
    """e4: floats, base64, dimensions, token ids."""
    engine = serve("vllm")
    floats = ask(engine, "/v1/embeddings", {"input": ["a b", "c"], "dimensions": 4}).json()
    coded = ask(engine, "/v1/embeddings", {"input": "a b", "dimensions": 4, "encoding_format": "base64"}).json()
    assert floats["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    assert coded["data"][0]["embedding"] == packed(floats["data"][0]["embedding"])
    assert len(ask(engine, "/v1/embeddings", {"input": [[1, 2], [3]]}).json()["data"]) == 2
    assert ask(engine, "/v1/embeddings", {"input": "a", "encoding_format": "hex"}).status_code == 400


def test_sparse_and_both(serve: Serve) -> None:
    """The shapes of bge-m3-embedding-server; two engines give the same vectors."""
    one, two = serve("openai-compatible"), serve("vllm")
    assert ask(one, "/v1/sparse-embeddings", {"input": "a b"}).json() == {
        "data": [{"index": 0, "sparse_values": sparse("a b")}]
    }
    both = [ask(engine, "/v1/embeddings:both", {"input": ["a", "b"]}).json()["data"] for engine in (one, two)]
    assert both[0] == both[1]
    assert both[0][1]["sparse_values"] == sparse("b")


@pytest.mark.parametrize("kind", ["vllm", "llamacpp", "sglang", "openai-compatible"])
def test_rerank(serve: Serve, kind: str) -> None:
    """Best first, cut at top_n, in the kind's shape."""
    body = {"model": "m", "query": "red fish", "documents": ["blue bird", {"text": "red fish"}, "red bird"], "top_n": 2}
    told = ask(serve(kind), "/v1/rerank", body).json()
    items = told if kind == "sglang" else told["results"]
    assert [item["index"] for item in items] == [1, 2]
    assert next(iter(items[0][key] for key in ("score", "relevance_score") if key in items[0])) == 1.0
