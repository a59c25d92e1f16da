"""fast.py: what is compiled, and that what it changes before is only what it says."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

import autohedge

ROOT = Path(__file__).resolve().parents[1]


def _fast() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fast", ROOT / "fast.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fast = _fast()
HOT = [ROOT / "autohedge" / f"{name}.py" for name in fast.HOT.split()]


@pytest.mark.parametrize("path", HOT, ids=lambda path: path.stem)
def test_preparing_moves_no_line(path: Path) -> None:
    """A traceback of the compiled build names the lines of the source; a line that was not blank stays what it is."""
    before = path.read_text(encoding="utf-8").split("\n")
    after = fast.prepared("\n".join(before)).split("\n")
    assert len(before) == len(after)
    changed = [old for old, new in zip(before, after, strict=True) if old != new]
    assert all(not old.strip() or old.strip().startswith("@dataclass(") for old in changed)


SOURCE = """
from dataclasses import dataclass, field

@dataclass(slots=True)
class Moving:
    \"\"\"A comment.\"\"\"

    one: int
    two: list[int] = field(default_factory=lambda: [2])
    three: str = "3"

    def four(self) -> int:
        return self.one


@dataclass(frozen=True, slots=True)
class Still:
    one: int
"""


def test_a_prepared_class_is_made_and_compared_as_before() -> None:
    before: dict[str, type] = {}
    after: dict[str, type] = {}
    exec(SOURCE, before)
    exec(fast.prepared(SOURCE), after)
    for made in (before["Moving"], after["Moving"]):
        first, second = made(1), made(one=1, two=[5], three="x")
        assert (first.one, first.two, first.three, first.four()) == (1, [2], "3", 1)
        assert (second.two, second.three) == ([5], "x")
        assert made(1) == first != second
        assert made(1).two is not first.two
        assert dataclasses.replace(first, one=7).one == 7
    assert [one.name for one in dataclasses.fields(after["Moving"])] == ["one", "two", "three"]
    assert after["Still"](1) == after["Still"](1)


def test_what_is_pickled_is_not_compiled() -> None:
    """The helper process of examiner.py gets and gives these; a compiled object cannot be pickled."""
    assert {"core/ask", "core/fact", "core/problems", "payloads/reading"}.isdisjoint(fast.HOT.split())


def test_the_tests_run_on_what_they_say() -> None:
    """`make test-fast` puts the compiled copy before the sources; nothing else does."""
    assert autohedge.compiled() is any([*Path(place).glob("autohedge__mypyc*")] for place in sys.path)


@pytest.mark.parametrize("what", ["C compiler", "Python.h", "mypyc", "setuptools"])
def test_where_it_cannot_be_compiled_the_sources_stay(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An image is built where nothing but pip works, too. What was compiled before is not left to hide the sources."""
    headers, place = tmp_path / "include", tmp_path / "place"
    headers.mkdir()
    if what != "Python.h":
        (headers / "Python.h").touch()
    monkeypatch.setenv("CC", "no-such-compiler" if what == "C compiler" else sys.executable)
    monkeypatch.setattr(fast.sysconfig, "get_path", lambda _name: str(headers))
    monkeypatch.setattr(fast, "find_spec", lambda name: None if name == what else name)
    old = place / "autohedge" / f"relay{sysconfig.get_config_var('EXT_SUFFIX')}"
    old.parent.mkdir(parents=True)
    old.touch()
    monkeypatch.setattr(sys, "argv", ["fast.py", str(place)])
    assert fast.main() == 0
    assert f"NOT COMPILED, no {what} here" in capsys.readouterr().out
    assert list(place.rglob("*")) == [place / "autohedge"]


def test_what_cannot_be_compiled_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A C compiler that fails: half of a compiled build would be two programs in one."""
    monkeypatch.setattr(fast, "lacking", lambda: "")
    monkeypatch.setattr(sys, "argv", ["fast.py", str(tmp_path)])
    half = tmp_path / "autohedge" / f"relay{sysconfig.get_config_var('EXT_SUFFIX')}"
    half.parent.mkdir()

    def fail(_place: Path, _folder: Path) -> None:
        half.touch()
        raise RuntimeError("error: command 'gcc' failed")

    monkeypatch.setattr(fast, "build", fail)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match="gcc"):
        fast.main()
    assert not half.exists()
