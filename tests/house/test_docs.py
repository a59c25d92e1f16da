"""What is documented exists, and what exists is documented: settings, paths, problem codes, metrics."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

from autohedge.core.problems import CODES
from autohedge.doors.openai import DOORS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_settings_are_the_computed_ones() -> None:
    """docs/settings.md equals what the schema says; `make docs` writes it."""
    assert (DOCS / "settings.md").read_text() == generator().settings()


def test_reference_tables_are_the_computed_ones() -> None:
    """Problem codes and metrics in docs/reference.md equal those of the code."""
    text = (DOCS / "reference.md").read_text()
    assert text == generator().reference(text)


def test_every_path_is_documented_and_every_documented_one_exists() -> None:
    """The paths of the reference are those that the doors and the management app know."""
    text = (DOCS / "reference.md").read_text()
    told = set(re.findall(r"^\| `(/[^`]*)` \|", text, re.MULTILINE))
    source = (ROOT / "autohedge/doors/status.py").read_text()
    routes = {re.sub(r"\{(\w+):path\}", r"{\1}", path) for path in re.findall(r'api_route\("([^"]+)"', source)}
    for name in ("admin.py", "admin_explain.py"):
        admin = (ROOT / "autohedge/doors" / name).read_text()
        found = re.findall(r'@router\.(?:get|post)\("([^"]+)"', admin)
        routes |= {"/admin" + re.sub(r"\{(\w+):path\}", r"{\1}", path) for path in found}
    workers = (ROOT / "autohedge/doors/workers.py").read_text()
    routes |= set(re.findall(r'@router\.(?:api_route|post|delete)\("([^"]+)"', workers))
    aliases = {"/openai/v1/...", "/openai/deployments/{model}/..."}
    assert told - aliases <= set(DOORS) | routes
    shown = text
    for path in set(DOORS) | routes:
        assert path.rstrip("/") in shown, f"{path} is not in docs/reference.md"


def test_every_problem_code_is_used() -> None:
    """A code of the table that no line raises would be a promise nobody keeps."""
    code = "\n".join(path.read_text() for path in (ROOT / "autohedge").rglob("*.py") if path.name != "problems.py")
    family = (ROOT / "autohedge/core/problems.py").read_text()
    for name in CODES:
        assert (
            f'"{name}"' in code
            or f'default_code = "{name}"' in family
            or f'default_code: ClassVar[str] = "{name}"' in family
        ), name


def test_the_readme_shows_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make run" in text
    assert "make test" in text


def test_no_path_of_a_workplace_is_in_the_repository() -> None:
    """The repository stands on its own: nothing in it points outside of it."""
    outside = re.compile("|".join(("[.][.]/" + "shared", "/wor" + "k/", "/far" + "m/")))
    for path in ROOT.rglob("*"):
        inside = not any(part.startswith(".") or part in {"build", "dist"} for part in path.relative_to(ROOT).parts)
        if inside and path.is_file() and path.suffix in {".py", ".md", ".yaml", ".yml", ".toml", ".sh"}:
            assert not outside.search(path.read_text()), path
