"""The tests on real Docker engines run where they are asked for: in `make test-swarm` and in the whole check, nowhere else."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SWARM = sorted((ROOT / "tests" / "swarm").glob("test_*.py"))


def test_the_whole_check_runs_them() -> None:
    """Not skipped there: the target needs root and says so, and brings the engine."""
    assert "\nmake test-swarm\n" in (ROOT / ".ci" / "run").read_text()
    assert "-m swarm tests/swarm" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("path", SWARM, ids=[path.name for path in SWARM])
def test_each_file_is_marked(path: Path) -> None:
    """By its `pytestmark`, with a time limit of its own: the usual one is too short for engines that are killed."""
    marks = [
        ast.unparse(node.value)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    assert len(marks) == 1
    assert "pytest.mark.swarm" in marks[0]
    assert "pytest.mark.timeout(" in marks[0]


def test_the_usual_run_does_not_look_at_them() -> None:
    """`make test` needs neither root nor an engine: without `-m swarm` nothing is collected there."""
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "tests/swarm"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    assert "no tests" in done.stdout
