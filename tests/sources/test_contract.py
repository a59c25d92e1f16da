"""What every source offers."""

from __future__ import annotations

import inspect

import pytest

from autohedge.core.types import Seen
from autohedge.sources.contract import Source
from autohedge.sources.file import FileSource
from autohedge.sources.static import StaticSource


@pytest.mark.parametrize("source", [StaticSource(()), FileSource("endpoints.yaml", lambda _: Seen(()))])
def test_the_shape(source: Source) -> None:
    """A name, a look and a hint; the latter two can be awaited."""
    assert source.name
    assert inspect.iscoroutinefunction(source.look)
    assert inspect.iscoroutinefunction(source.hint)
