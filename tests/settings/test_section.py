"""The base of every section."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from autohedge.settings.section import Section


class Inner(Section):
    x: int = 1


class Outer(Section):
    inner: Inner = Inner()
    y: int = 2


def test_an_empty_section_means_its_defaults() -> None:
    """ "server:" with every line below it commented out."""
    assert Outer.model_validate(None) == Outer.model_validate({"inner": None, "y": None}) == Outer()


def test_a_section_is_frozen_and_knows_no_other_keys() -> None:
    """Settings are replaced as a whole, never changed."""
    with pytest.raises(ValidationError):
        Outer().y = 3
    with pytest.raises(ValidationError):
        Outer.model_validate({"z": 1})
    with pytest.raises(ValidationError):
        Outer.model_validate([])
