"""Compiles the data path ahead of time, with mypyc: the same modules as machine code, for two thirds of the instructions.

    python fast.py PLACE           PLACE holds the package `autohedge`: a folder on the path, or an environment's site-packages

Rules
- An extra, never a need: what is compiled stands beside its source and is preferred by the import system. Where this machine
  lacks what it takes, the sources are run, and it is said. `autohedge version` says which. What fails half-way is an error.
- In one piece: modules that are compiled each for itself call each other for a tenth more time.
- PLACE is a copy. In a working tree a compiled module would hide every later change of its source.
- Compiled are the modules that nearly every request passes through, less those whose objects are pickled.
- mypyc takes the sources as they are but for dataclasses that change, and it takes a copy in which these differ: `slots=True`
  is left out, since a compiled class has slots by nature, and `__init__` is spelled out, so that it is compiled as well.

It needs mypy, setuptools, a C compiler with Python's headers, and the dependencies of AutoHedge in the running Python.
"""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path

HOT = """
answering attempt call checking planning race relay stream telling
core/types
doors/access_log doors/edge doors/openai
memory/choice memory/cooling memory/entry memory/health memory/meters
payloads/asking payloads/findings payloads/parse payloads/span payloads/sse payloads/sse_verdict
rules/balance rules/breaker rules/budget rules/chain rules/content rules/limits rules/standing rules/streak rules/verdicts rules/window
wire/answer wire/connection wire/errors wire/heads wire/lifeline wire/outbox wire/pool
wire/server wire/server_again wire/server_exchange wire/server_reader wire/server_rules
"""
LIBRARY = "autohedge"  # the shared part of all compiled modules: autohedge__mypyc
# Functions call each other directly, since nobody else can take their place; no tables for exceptions that C does not have.
FLAGS = ["-fvisibility=hidden", "-fno-asynchronous-unwind-tables"]
SETTINGS = """[mypy]
ignore_missing_imports = True
disable_error_code = import-untyped
cache_dir = /dev/null
"""


def prepared(source: str) -> str:
    """The source as mypyc takes it best; no line moves."""
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            words = ast.unparse(decorator)
            if words.startswith("dataclass("):
                lines[decorator.lineno - 1] = f"@{words.replace(', slots=True', '').replace('slots=True', '')}"
            if words == "dataclass(slots=True)":
                fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
                end = max(one.end_lineno or 0 for one in fields)
                assert not lines[end].strip(), lines[end]
                lines[end] = " " * fields[0].col_offset + maker(fields)  # in the place of the blank line behind them
    return "\n".join(lines)


def maker(fields: list[ast.AnnAssign]) -> str:
    """The `__init__` that `dataclass` would make at run time, where nobody compiles it."""
    takes, does = ["self"], []
    for one in fields:
        name, kind = ast.unparse(one.target), ast.unparse(one.annotation)
        default = "" if one.value is None else ast.unparse(one.value)
        if default.startswith("field(default_factory="):
            takes.append(f"{name}: {kind} | None = None")
            does.append(f"self.{name} = ({default[22:-1]})() if {name} is None else {name}")
        else:
            takes.append(f"{name}: {kind} = {default}" if default else f"{name}: {kind}")
            does.append(f"self.{name} = {name}")
    return f"def __init__({', '.join(takes)}) -> None: {'; '.join(does)}"


def lacking() -> str:
    """What this machine would need, "" where it has all."""
    words = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(words[0]) is None:
        return "no C compiler"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "no Python.h"
    lost = [name for name in ("mypyc", "setuptools") if find_spec(name) is None]
    return f"no {lost[0]}" if lost else ""


def build(place: Path, folder: Path) -> None:
    """Compile the modules of `place`, working in `folder`."""
    from mypyc.build import mypycify  # noqa: PLC0415  needed here alone, and not everywhere installed
    from setuptools import Distribution  # noqa: PLC0415

    shutil.copytree(place / "autohedge", folder / "autohedge", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    (folder / "mypy.ini").write_text(SETTINGS)
    paths = [f"autohedge/{name}.py" for name in HOT.split()]
    for path in paths:
        file = folder / path
        file.write_text(prepared(file.read_text(encoding="utf-8")), encoding="utf-8")
    os.chdir(folder)
    modules = mypycify(["--config-file", "mypy.ini", *paths], opt_level="2", debug_level="0", group_name=LIBRARY)
    for module in modules:
        module.extra_compile_args += FLAGS
    command = Distribution({"name": "autohedge", "ext_modules": modules}).get_command_obj("build_ext")
    command.build_lib, command.build_temp = str(place), str(folder / "build")
    command.parallel = True
    command.ensure_finalized()
    command.run()


def clean(place: Path) -> None:
    """Take away what was compiled before."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    for file in [*place.glob(f"{LIBRARY}__mypyc{suffix}"), *(place / "autohedge").rglob(f"*{suffix}")]:
        file.unlink()


def works(place: Path) -> bool:
    """Whether what was compiled can be imported."""
    env = {**os.environ, "PYTHONPATH": str(place), "PYTHONSAFEPATH": "1"}
    code = "import autohedge.app, autohedge.relay as it; raise SystemExit(it.__file__.endswith('.py'))"
    return subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == 0


def main() -> int:
    """0: compiled, or this machine lacks something for it; 1: it went wrong, and nothing compiled is left behind."""
    place = Path(sys.argv[1]).resolve()
    clean(place)
    lost = lacking()
    if lost:
        print(f"fast: NOT COMPILED, {lost} here; AutoHedge runs from its sources")
        return 0
    with tempfile.TemporaryDirectory(prefix="autohedge-fast-") as name:
        try:
            build(place, Path(name))
        except BaseException:
            clean(place)
            raise
        finally:
            os.chdir(place)
    if works(place):
        print(f"fast: {len(HOT.split())} modules are compiled")
        return 0
    clean(place)
    print("fast: what was compiled does not work; AutoHedge runs from its sources", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
