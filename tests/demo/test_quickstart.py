"""The quickstart: two engines of its own, with and without the llama.cpp wheel, and the lines that say what to try."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import httpx
import pytest

from autohedge.demo import quickstart
from autohedge.demo.quickstart import Engine, environment, hints, start_engines, stop_engines
from autohedge.settings.load import load
from tests.support.processes import Child

CONFIG = Path(quickstart.__file__).resolve().parents[2] / "config" / "quickstart.yaml"


@pytest.fixture(params=[False, True], ids=["sample engine", "llama.cpp"])
def engines(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    if request.param and not quickstart.real_engines_exist():
        pytest.skip("no llama.cpp wheel here")
    if not request.param:
        monkeypatch.setattr(quickstart, "real_engines_exist", lambda: False)
    started = start_engines(tmp_path / "data")
    request.addfinalizer(lambda: stop_engines(started))  # noqa: PT021 - there may be nothing to yield
    return started


def test_two_engines_serve_the_same_model(engines: list[Engine]) -> None:
    """Whatever this machine has: the model is called "tiny" on both, each has an address of its own."""
    assert [engine.name for engine in engines] == ["engine-1", "engine-2"]
    assert len({engine.url for engine in engines}) == 2
    for engine in engines:
        listed = httpx.get(f"{engine.url}/v1/models").json()["data"]
        assert listed[0]["id"] == "tiny"
    stop_engines(engines)
    assert all(engine.process.returncode is not None for engine in engines)


def fakes() -> list[Engine]:
    class Process:
        pid = 4711

    return [Engine(f"engine-{n}", f"http://127.0.0.1:{n}", Process()) for n in (1, 2)]  # type: ignore[arg-type]


def test_the_configuration_takes_their_addresses() -> None:
    """config/quickstart.yaml loads as it stands, with both replicas behind one name."""
    env = environment({"PATH": "x"}, fakes())
    assert env["PATH"] == "x"
    settings = load(str(CONFIG), env, lambda path: Path(path).read_text()).settings
    (backend,) = settings.backends()
    assert [str(address) for address in backend.addresses] == ["http://127.0.0.1:1", "http://127.0.0.1:2"]


def test_the_hints_are_commands_that_can_be_pasted() -> None:
    """A good request, a wrong one, and how to kill an engine."""
    text = hints("http://127.0.0.1:8000", fakes())
    curls = [shlex.split(line) for line in text.splitlines() if line.strip().startswith("curl")]
    assert len(curls) == 2
    for words in curls:
        assert words[1] == "http://127.0.0.1:8000/v1/chat/completions"
        assert json.loads(words[3])["model"] == "tiny"
    assert "kill -9 4711" in text


def test_an_engine_that_does_not_start_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No half of a demonstration is left behind."""
    monkeypatch.setattr(quickstart, "_command", lambda _folder, _number: [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(RuntimeError, match="engine-1 did not start"):
        start_engines(tmp_path)


def test_the_whole_command(tmp_path: Path) -> None:
    """`autohedge quickstart` answers a chat and refuses the wrong one, as its hints say."""
    environment = {"AUTOHEDGE_DATA": str(tmp_path), "AUTOHEDGE_SERVER_LISTEN": "127.0.0.1:0"}
    child = Child(["autohedge", "quickstart"], "AutoHedge listens on ", environment)
    try:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
        assert httpx.post(f"{child.url}/v1/chat/completions", json=body, timeout=60).status_code == 200
        wrong = httpx.post(f"{child.url}/v1/chat/completions", json=body | {"tool_choice": "banana"})
        assert wrong.status_code == 400
        assert wrong.json()["error"]["param"] == "tool_choice"
    finally:
        child.stop()
