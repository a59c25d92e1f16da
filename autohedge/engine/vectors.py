"""Vectors and scores: embeddings, sparse embeddings, both at once, rerank.

Rules
- The same text has the same vector on every engine (they serve the same model); the X-Sample-Engine header says who answered.
- Shapes: OpenAI for embeddings; bge-m3-embedding-server for sparse and both (the server behind seed 001); vLLM (Jina),
  SGLang and llama.cpp for rerank.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from typing import Any

from autohedge.core.types import Door, Kind
from autohedge.engine.messages import Answer, dump, plain
from autohedge.engine.state import State
from autohedge.engine.text import ids
from autohedge.engine.work import Work

LARGEST = 8192  # numbers of one vector, whatever `dimensions` asks for


def vector(value: Any, size: int) -> list[float]:
    """A unit vector of `size` numbers that depends on the input alone."""
    seed = zlib.crc32(dump(value)) or 1
    numbers: list[float] = []
    for _ in range(size):
        seed = (seed * 1_103_515_245 + 12_345) & 0x7FFFFFFF
        numbers.append(seed / 0x3FFFFFFF - 1.0)
    norm = math.sqrt(sum(number * number for number in numbers)) or 1.0
    return [round(number / norm, 6) for number in numbers]


def packed(numbers: list[float]) -> str:
    """The base64 form of an embedding: little-endian 32-bit floats (what openai-python asks for by default)."""
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def sparse(value: Any) -> dict[str, Any]:
    """Token ids and weights of one input, ids ascending."""
    numbers = ids(value) if isinstance(value, str) else value if isinstance(value, list) else ()
    found = sorted({number for number in numbers if isinstance(number, int)})
    return {"indices": found, "values": [round(1 / (place + 1), 4) for place in range(len(found))]}


def vectors(work: Work, state: State) -> Answer:
    """Answer the embeddings, sparse-embeddings and embeddings-both doors."""
    wanted = work.body.get("dimensions")
    size = min(wanted, LARGEST) if isinstance(wanted, int) and wanted > 0 else state.dimensions
    encode = packed if work.body.get("encoding_format") == "base64" else list
    data: list[dict[str, Any]] = []
    for index, value in enumerate(work.inputs):
        if work.door is Door.SPARSE:
            data.append({"index": index, "sparse_values": sparse(value)})
        elif work.door is Door.BOTH:
            data.append({"index": index, "embedding": vector(value, size), "sparse_values": sparse(value)})
        else:
            data.append({"object": "embedding", "index": index, "embedding": encode(vector(value, size))})
    usage = {"prompt_tokens": work.prompt, "total_tokens": work.prompt}
    obj: dict[str, Any] = (
        {"data": data} if work.door is Door.SPARSE else {"object": "list", "model": work.model, "data": data}
    )
    if work.door is not Door.SPARSE:
        obj["usage"] = usage
    if work.door is Door.EMBEDDINGS and state.kind is Kind.VLLM:
        obj = {"id": state.next_id("embd-"), **obj}
    answer = plain(obj)
    answer.wait = state.latency
    return answer


def rerank(work: Work, state: State) -> Answer:
    """Documents by falling score; the score is the share of the query's words that the document has."""
    query = set(str(work.body.get("query")).lower().split())
    documents = [item.get("text", "") if isinstance(item, dict) else str(item) for item in work.body["documents"]]
    scores = [len(query & set(text.lower().split())) / max(1, len(query)) for text in documents]
    order = sorted(range(len(documents)), key=lambda place: (-scores[place], place))
    wanted = work.body.get("top_n")
    if isinstance(wanted, int) and wanted > 0:
        order = order[:wanted]
    if state.kind is Kind.SGLANG:
        obj: Any = [
            {"score": scores[place], "document": documents[place], "index": place, "meta_info": None} for place in order
        ]
    elif state.kind is Kind.LLAMACPP:
        results = [{"index": place, "relevance_score": scores[place]} for place in order]
        usage = {"prompt_tokens": work.prompt, "total_tokens": work.prompt}
        obj = {"model": work.model, "object": "list", "usage": usage, "results": results}
    else:
        found: list[dict[str, Any]] = [
            {"index": place, "document": {"text": documents[place]}, "relevance_score": scores[place]}
            for place in order
        ]
        usage = {"prompt_tokens": work.prompt, "total_tokens": work.prompt}
        obj = {"id": state.next_id("rerank-"), "model": work.model, "usage": usage, "results": found}
    answer = plain(obj)
    answer.wait = state.latency
    return answer
