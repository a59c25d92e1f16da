"""What each kind of System One server takes: that the table is used, and that the unknown is not demanded."""

from __future__ import annotations

from dataclasses import fields

import pytest

from autohedge.core.types import Kind
from autohedge.payloads.systemone_tastes import COMMON, TASTES, Taste, taste_of
from tests.payloads.decisions import NOUL, asking, codes


def test_a_kind_that_nobody_knows_gets_what_every_server_refuses() -> None:
    for kind in set(Kind) - set(TASTES):
        assert taste_of(kind) is COMMON
    assert codes(Kind.AUTO, asking(NOUL, state=5)) == []


@pytest.mark.parametrize("name", [field.name for field in fields(Taste)])
def test_no_trait_is_without_use(name: str) -> None:
    """Each is the taste of some kind and not of all."""
    assert len({getattr(taste, name) for taste in (COMMON, *TASTES.values())}) > 1


def test_who_needs_a_model() -> None:
    """Systemone facts 1: required by TypeSafe, SGLang and Ollama; llama.cpp and servers of unknown make go without."""
    body = {"state": "x", "questions": {"q": NOUL}}
    needing = {kind for kind in Kind if "missing_field" in codes(kind, body)}
    assert needing == {Kind.TYPESAFE, Kind.SGLANG, Kind.OLLAMA}
