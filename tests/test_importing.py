"""Imports for good."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from autohedge.importing import for_good


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_what_is_imported_is_not_looked_at_by_the_collector() -> None:
    assert gc.get_freeze_count() == 0
    with for_good():
        assert not gc.isenabled()
        made = [[]]  # type: list[list[int]]
    assert gc.isenabled()
    assert gc.get_freeze_count() > 1000
    assert not any(seen is made for seen in gc.get_objects())


def test_an_import_that_fails_leaves_the_collector_on() -> None:
    with pytest.raises(ImportError), for_good():
        raise ImportError
    assert gc.isenabled()
