"""Findings against what real engines answered: nothing that an engine serves is refused, most of what it refuses is found."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from autohedge.core.types import Door, Kind
from tests.payloads.bodies import HERE, Recorded, found, recorded

# refused on purpose: a schema of 67 levels costs seconds (bounds.schema_depth), and surrogates written as raw bytes are
# no UTF-8, which SGLang's reader lets pass to a tokenizer that fails
ON_PURPOSE = ("json_schema depth", "cesu surrogate")


Told = Callable[[Recorded], tuple[int, str]]
ENGINES: list[tuple[Kind, Told]] = [
    (Kind.LLAMACPP, lambda row: (row.llamacpp, row.because)),
    (Kind.VLLM, lambda row: (row.vllm, row.vllm_because)),
    (Kind.SGLANG, lambda row: (row.sglang, row.sglang_because)),
]
IDS = ["llamacpp", "vllm", "sglang"]


@pytest.mark.parametrize(("kind", "told"), ENGINES, ids=IDS)
def test_no_false_reject(kind: Kind, told: Told) -> None:
    """Section 00: what this engine serves, it is given."""
    wrong = [
        (row.case, found(kind, row.body, row.door)[0].message)
        for row in recorded()
        if told(row)[0] == 200 and found(kind, row.body, row.door) and not any(word in row.case for word in ON_PURPOSE)
    ]
    assert wrong == []


@pytest.mark.parametrize(("kind", "told"), ENGINES, ids=IDS)
def test_most_refusals_are_found(kind: Kind, told: Told) -> None:
    """Of what this engine refuses for its schema or its JSON, at least 95 in 100 is told before it is sent (asked: 75)."""
    refused = [row for row in recorded() if told(row)[1] in {"schema", "json"}]
    caught = [row for row in refused if found(kind, row.body, row.door)]
    assert len(refused) > 300
    assert len(caught) >= 0.95 * len(refused), [row.case for row in refused if row not in caught]


def test_what_all_refuse_is_common() -> None:
    """An unknown engine is asked only what llama.cpp, vLLM and SGLang all refuse; a model that is no string is the one
    exception: without a name there is no way to choose a backend."""
    for row in recorded():
        if any(word in row.case for word in (*ON_PURPOSE, "model ")):
            continue
        if 200 in (row.llamacpp, row.vllm, row.sglang):
            assert found(Kind.OPENAI, row.body, row.door) == (), row.case


def test_random_bodies() -> None:
    """999 bodies put together at random, which no rule was written for: none that is served is refused, 19 in 20 of the
    others are found."""
    rows = json.loads((HERE / "random_bodies.json").read_text())
    for place, kind in enumerate((Kind.LLAMACPP, Kind.VLLM, Kind.SGLANG), start=2):
        refused = caught = 0
        for row in rows:
            findings = found(kind, row[1], Door(row[0]))
            if row[place] == 200:
                assert findings == (), (kind, row[1], findings)
            else:
                refused += 1
                caught += bool(findings)
        assert caught >= 0.95 * refused, (kind, caught, refused)


def test_unknown_kinds_take_the_common_rules() -> None:
    """Azure and an engine not yet recognised are checked as openai-compatible."""
    for row in recorded()[:200]:
        common = found(Kind.OPENAI, row.body, row.door)
        assert found(Kind.AZURE, row.body, row.door) == common
        assert found(Kind.AUTO, row.body, row.door) == common
