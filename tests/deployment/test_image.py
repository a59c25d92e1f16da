"""The image: what its Dockerfile promises, and that trimming leaves compiled modules that work.

That it builds, how large it is and that it drains is seen on a real engine by `make test-swarm`.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import brotli
import pytest

from autohedge.light import LIGHT, main
from autohedge.settings.eidex import started
from autohedge.settings.load import load

ROOT = Path(__file__).resolve().parents[2]
Steps = list[tuple[str, str]]


def stages() -> list[Steps]:
    """The instructions of the Dockerfile, stage by stage."""
    found: list[Steps] = []
    text = "\n".join(line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#"))
    for line in text.replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            found.append([])
        if word:
            found[-1].append((word, rest))
    return found


def said(stage: Steps, word: str) -> list[str]:
    return [rest for name, rest in stage if name == word]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "image" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_built_in_two_stages_on_python_slim() -> None:
    """S96, E149: the base of the article; what builds does not ship. No frontend that a closed network cannot pull."""
    first, last = stages()
    assert [said(stage, "FROM") for stage in (first, last)] == [["python:3.11-slim AS build"], ["python:3.11-slim"]]
    assert said(last, "COPY")[0].startswith("--from=build ")
    assert "syntax=" not in (ROOT / "Dockerfile").read_text()


def test_it_runs_without_root() -> None:
    """E149: a numeric uid, and the only place that it owns is the state's."""
    last = stages()[-1]
    (user,) = said(last, "USER")
    assert int(user.partition(":")[0]) > 0
    assert said(last, "VOLUME") == ["/var/lib/autohedge"]
    assert "AUTOHEDGE_DATA=/var/lib/autohedge" in said(last, "ENV")[0]


def test_the_health_check_is_our_own() -> None:
    """R69: no curl, no wget; the command is one that exists and takes those words."""
    (check,) = said(stages()[-1], "HEALTHCHECK")
    words = shlex.split(check.partition("CMD ")[2].strip("[]").replace(",", " "))
    assert words[0] == "autohedge"
    assert words[1] in LIGHT
    assert main([*words[1:], "--url", "http://127.0.0.1:1"]) == 1
    assert "curl" not in (ROOT / "Dockerfile").read_text()


def test_it_listens_where_it_says_and_ends_on_sigterm() -> None:
    """R65, E152: port 8000, unless configured; PID 1 is Python itself, so that the signal arrives."""
    last = stages()[-1]
    assert said(last, "EXPOSE") == [str(load(None, {}, lambda _path: "").settings.server.bind[1])]
    assert said(last, "STOPSIGNAL") == ["SIGTERM"]
    assert said(last, "ENTRYPOINT") == ['["python", "-m", "autohedge"]']


def test_the_version_is_an_argument_of_the_build() -> None:
    """E150."""
    first, last = stages()
    assert said(first, "ARG") == said(last, "ARG") == ['VERSION=""']
    line = next(rest for rest in said(first, "RUN") if "VERSION" in rest)
    assert "autohedge/__init__.py" in line
    assert "\n__version__ = " in (ROOT / "autohedge/__init__.py").read_text()


def test_every_copied_path_passes_the_ignore_file() -> None:
    """The ignore file allows by name: secrets and notes beside the code never reach a layer."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    allowed = {line[1:] for line in lines if line.startswith("!")}
    for rest in [rest for stage in stages() for rest in said(stage, "COPY") if "--from" not in rest]:
        for source in rest.split()[:-1]:
            assert source.split("/")[0] in allowed
            assert (ROOT / source).exists()


def test_the_layer_of_dependencies_is_that_of_the_project() -> None:
    """Only what runs: no extra, nothing that only tests or the demo need."""
    done = subprocess.run(
        [sys.executable, ROOT / "image" / "requirements.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = done.stdout.splitlines()
    assert any(name.startswith("httptools") for name in names)
    assert not any(name.startswith(("pytest", "xllamacpp", "opentelemetry", "mypy")) for name in names)


def test_the_compiler_is_cached_and_does_not_ship() -> None:
    """What fast.py needs comes in layers before any of our code, never into the environment that is copied, and may be lacking."""
    first, last = stages()
    words = [f"{word} {rest}" for word, rest in first]
    code = words.index("COPY autohedge ./autohedge")
    tools = [at for at, line in enumerate(words) if "gcc" in line or "mypy" in line]
    assert len(tools) == 2
    assert max(tools) < code < next(at for at, line in enumerate(words) if "python fast.py" in line)
    assert all("|| echo" in words[at] for at in tools)
    assert "/opt/tools" not in str(last)
    asked = [sys.executable, str(ROOT / "image" / "requirements.py"), "mypy", "setuptools"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    assert [re.split("[^a-z]", line)[0] for line in done.stdout.splitlines()] == ["mypy", "setuptools"]


def test_a_compiled_module_has_no_bytecode(tmp_path: Path) -> None:
    """Nobody would read it. Beside it stands the source, for tracebacks."""
    trim = script("trim")
    package = tmp_path / "autohedge"
    package.mkdir()
    for name in ("__init__.py", "cli.py", "relay.py", "relays.py", "relay.cpython-311-x86_64-linux-gnu.so"):
        (package / name).touch()
    trim.main(sys.executable, tmp_path)
    kept = {path.name.partition(".")[0] for path in package.rglob("*.pyc")}
    assert kept == {"__init__", "cli", "relays"}
    assert (package / "relay.py").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="compiled modules of Linux")
def test_a_shortened_module_works(tmp_path: Path) -> None:
    """What is cut off is nothing that the loader reads."""
    compiled = Path(str(importlib.util.find_spec("_brotli").origin))  # type: ignore[union-attr]
    copy = tmp_path / compiled.name
    shutil.copy(compiled, copy)
    script("trim").shorten(copy)
    assert copy.stat().st_size < compiled.stat().st_size
    code = "import sys, _brotli; sys.stdout.buffer.write(_brotli.decompress(sys.stdin.buffer.read()))"
    command, packed = [sys.executable, "-c", code], brotli.compress(b"hello " * 99)
    done = subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, input=packed, capture_output=True, check=True)
    assert done.stdout == b"hello " * 99


def test_what_is_no_compiled_module_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(b"INPUT ( libx.so.1 )")
    script("trim").shorten(path)
    assert path.read_bytes() == b"INPUT ( libx.so.1 )"


def test_bytecode_is_written_for_whatever_may_be_imported() -> None:
    """Who runs in the image may not write any: what a configuration alone imports would be compiled at every start."""
    done = subprocess.run([sys.executable, ROOT / "image" / "used.py"], capture_output=True, text=True, check=True)
    files = json.loads(done.stdout)
    ours = {str(path.relative_to(ROOT)) for path in (ROOT / "autohedge").rglob("*.py") if path.parent.name != "demo"}
    assert ours - {"autohedge/__main__.py"} <= {file.removeprefix(f"{ROOT}/") for file in files}
    for name in ("docker", "redis", "smtplib"):
        assert any(f"/{name}" in file for file in files)


def test_bytecode_without_docstrings_does_the_same(tmp_path: Path) -> None:
    """Found by Python as it stands, taken without a look at the source, and the source keeps its words."""
    path = tmp_path / "told.py"
    path.write_text(
        '"""M."""\nclass A:\n    """A."""\ndef f(x):\n    """F."""\n    assert x, "no"\n    return "kept"\n'
    )
    script("trim").compiled(path, ours=False)
    code = (
        "import told; assert told.f(1) == 'kept'; print(told.__doc__, told.A.__doc__, told.f.__doc__, told.__cached__)"
    )
    done = subprocess.run(
        [sys.executable, "-v", "-c", code],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("None None None ")
    assert "wrote" not in "".join(line for line in done.stderr.splitlines() if "told" in line)
    assert '"""F."""' in path.read_text()


def test_a_file_of_eidex_s_is_heard_in_the_image() -> None:
    """E151, S100: the image names no configuration, so /etc/eidex/config.yaml and /app/config/config.yaml are looked for, and
    without a mount defaults hold.
    """
    last = stages()[-1]
    assert not any("CONFIG" in rest for rest in said(last, "ENV"))
    assert said(last, "CMD") == ['["serve"]']
    assert started(None, None, {}, lambda path: path == "/etc/eidex/config.yaml").config == "/etc/eidex/config.yaml"
    assert started(None, None, {}, lambda path: path == "/app/config/config.yaml").config == "/app/config/config.yaml"
    assert started(None, None, {}, lambda _path: False).config is None
