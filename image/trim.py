"""Makes an installed environment small: what a running AutoHedge never opens goes. Run by the Dockerfile, in the build stage.

    trim.py <python of the environment> <its site-packages>

Rules
- Goes: sources of compiled modules, type stubs, tests, zstandard's second backend (CPython takes the first), pydantic's first life.
- Compiled modules lose what the loader does not read: the debug information behind their last segment, which is most of some
  wheels. They work as before; a crash names no line in them.
- Bytecode stands only for what AutoHedge may import (used.py), and is not checked against the source: nothing is written at run time.
  That of others' packages comes without docstrings; their sources keep them. A compiled module has none: its source stays for
  tracebacks alone.
- Licences stay; of the metadata the head, without the README in it.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import marshal
import shutil
import struct
import subprocess
import sys
from pathlib import Path

LEFTOVERS = (
    "*.dist-info/RECORD",
    "*.pyx",
    "*.pxd",
    "*.pxi",
    "*.pyi",
    "*.c",
    "*.h",
    "zstandard/*cffi*",
    "pydantic/mypy.py",
)
FOLDERS = ("tests", "test", "pydantic/v1", "*.dist-info/sboms")
USED = Path(__file__).with_name("used.py")


def shorten(path: Path) -> None:
    """Cut a 64-bit little-endian ELF file behind its last segment, and say in its head that it has no sections."""
    data = bytearray(path.read_bytes())
    if data[:6] != b"\x7fELF\x02\x01":
        return
    table = struct.unpack_from("<Q", data, 0x20)[0]
    size, count = struct.unpack_from("<HH", data, 0x36)
    ends = [table + size * count]
    for at in range(table, ends[0], size):
        offset, in_file = struct.unpack_from("<Q16xQ", data, at + 8)
        ends.append(offset + in_file)
    struct.pack_into("<Q", data, 0x28, 0)
    struct.pack_into("<HH", data, 0x3C, 0, 0)
    path.write_bytes(data[: max(ends)])


def undocumented(tree: ast.Module) -> ast.Module:
    """The same program without its docstrings."""
    for node in ast.walk(tree):
        told = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if told and ast.get_docstring(node, clean=False) is not None:
            node.body[:1] = [] if len(node.body) > 1 else [ast.copy_location(ast.Pass(), node.body[0])]
    return tree


def compiled(path: Path, *, ours: bool) -> None:
    """Write the bytecode of a module, marked as not to be checked (PEP 552)."""
    source = path.read_bytes()
    tree = ast.parse(source)
    code = compile(tree if ours else undocumented(tree), str(path), "exec", dont_inherit=True)
    target = Path(importlib.util.cache_from_source(str(path)))
    target.parent.mkdir(exist_ok=True)
    head = importlib.util.MAGIC_NUMBER + struct.pack("<L", 1) + importlib.util.source_hash(source)
    target.write_bytes(head + marshal.dumps(code))


def main(python: str, folder: Path) -> None:
    for pattern in LEFTOVERS:
        for path in folder.rglob(pattern):
            path.unlink()
    for path in [found for name in FOLDERS for found in folder.rglob(name) if found.is_dir()]:
        shutil.rmtree(path, ignore_errors=True)
    for path in folder.rglob("*.so*"):
        shorten(path)
    for path in folder.glob("*.dist-info/METADATA"):
        path.write_bytes(path.read_bytes().partition(b"\n\n")[0] + b"\n\n")
    done = subprocess.run([python, "-B", str(USED)], check=True, capture_output=True, text=True)  # noqa: S603 - our own
    files = {Path(name) for name in json.loads(done.stdout)} | set((folder / "autohedge").rglob("*.py"))
    for path in sorted(files):
        if path.suffix == ".py" and path.is_relative_to(folder) and not list(path.parent.glob(f"{path.stem}.*.so")):
            compiled(path, ours=path.is_relative_to(folder / "autohedge"))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
