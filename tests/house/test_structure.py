"""The house keeps its shape: floors, file and function sizes, mirrors, no circles. A machine checks what people forget."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "autohedge"

# Room -> floor. An import may only go to a lower floor, or stay inside its room.
FLOORS = {
    "core": 0,
    "parent": 0,
    "importing": 0,
    "settings": 1,
    "payloads": 1,
    "providers": 1,
    "rules": 2,
    "memory": 3,
    "state": 3,
    "wire": 3,
    "sources": 4,
    "watchers": 5,
    "call": 4,
    "waiting": 4,
    "fallback": 4,
    "pools": 4,
    "sharing": 4,
    "reloading": 4,
    "discovery": 5,
    "listening": 4,
    "logs": 4,
    "healthcheck": 4,
    "guard": 5,
    "workers": 5,
    "examiner": 5,
    "attempt": 5,
    "surveying": 6,
    "tools": 6,
    "race": 6,
    "stream": 6,
    "checking": 7,
    "deciding": 7,
    "answering": 7,
    "speaking": 7,
    "telling": 7,
    "planning": 8,
    "explaining": 9,
    "relay": 9,
    "doors": 10,
    "engine": 10,
    "demo": 10,
    "app": 11,
    "light": 11,
    "starting": 12,
    "cli": 13,
    "__main__": 14,
}
FILE_LINES = 400
FUNCTION_LINES = 60
PARAMETERS = 6


def sources() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.read_text().strip())


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "autohedge"


def imports(path: Path) -> Iterator[str]:
    """Every module of ours that a file imports, at the top or inside a function."""
    known = {module(other) for other in PACKAGE.rglob("*.py")}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            ours = name
            while ours.startswith("autohedge") and ours not in known:
                ours = ours.rpartition(".")[0]
            if ours.startswith("autohedge."):
                yield ours


def ids(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("path", sources(), ids=ids(sources()))
def test_imports_go_down(path: Path) -> None:
    """An import points to a lower floor or stays in its room, also inside functions."""
    here = room(module(path))
    if here == "autohedge":
        return
    for name in imports(path):
        there = room(name)
        assert there == here or FLOORS[there] < FLOORS[here], f"{module(path)} (floor {FLOORS[here]}) imports {name}"


def test_no_import_circle() -> None:
    """No module can reach itself through its imports."""
    graph = {module(path): set(imports(path)) - {module(path)} for path in sources()}
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join((*way, name))
        if name in done:
            return
        for other in graph.get(name, ()):
            visit(other, (*way, name))
        done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("path", sources(), ids=ids(sources()))
def test_sizes(path: Path) -> None:
    """No file over 400 lines, no function over 60 lines or 6 parameters (self and keyword defaults of plain data apart)."""
    assert len(path.read_text().splitlines()) <= FILE_LINES
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            where = f"{path.name}:{node.lineno} {node.name}"
            assert (node.end_lineno or 0) - node.lineno + 1 <= FUNCTION_LINES, f"{where} is too long"
            arguments = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args) if arg.arg not in {"self", "cls"}]
            assert len(arguments) <= PARAMETERS, f"{where} takes {len(arguments)} positional parameters"


@pytest.mark.parametrize("path", sources(), ids=ids(sources()))
def test_mirror(path: Path) -> None:
    """Each source file has its mirror test, named after it."""
    if path.name in {"__init__.py", "__main__.py"}:
        return
    inner = path.relative_to(PACKAGE)
    mirror = ROOT / "tests" / inner.parent / f"test_{inner.name}"
    assert mirror.exists(), f"{mirror.relative_to(ROOT)} is missing"


@pytest.mark.parametrize("path", sources(), ids=ids(sources()))
def test_opens_with_its_purpose(path: Path) -> None:
    """A module opens by saying what it decides."""
    if path.name == "__init__.py":
        return
    assert ast.get_docstring(tree(path)), f"{path} has no opening docstring"
