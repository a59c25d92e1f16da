"""The bundle holds nothing that no step uses."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from autohedge.tools import Tools

PACKAGE = Path(__file__).resolve().parents[1] / "autohedge"


@pytest.mark.parametrize("name", [field.name for field in fields(Tools)])
def test_every_tool_is_used_on_the_way(name: str) -> None:
    """A tool that only app.py knows belongs to app.py."""
    users = [
        path
        for path in PACKAGE.rglob("*.py")
        if path.name not in {"app.py", "tools.py"} and f"tools.{name}" in path.read_text()
    ]
    assert users
