"""The container's health check: whom it asks, and what it calls well."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from autohedge import healthcheck
from autohedge.healthcheck import judge, listening
from tests.support.house import ALONE, SERVER, TIMES, alone, run

OUT = "no-such-engine.invalid:1"
EMPTY = SERVER + TIMES
SHUT = EMPTY + f'startup: {{require: all, max_wait: 30s}}\nupstream_registry:\n  a: {{host: "{OUT}"}}\n'


@pytest.mark.parametrize(
    ("listen", "asked"),
    [
        ("0.0.0.0:8000", ("127.0.0.1", 8000)),
        (":9000", ("127.0.0.1", 9000)),
        ("[::]:8000", ("::1", 8000)),
        ("10.1.2.3:80", ("10.1.2.3", 80)),
    ],
)
def test_the_configured_address_is_asked(tmp_path: Path, listen: str, asked: tuple[str, int]) -> None:
    """R69: the router's own health; a wildcard is asked at the loopback."""
    path = tmp_path / "c.yaml"
    path.write_text(f'server: {{listen: "{listen}"}}\n')
    assert listening(str(path), {}) == asked


def test_the_environment_stands_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text('server: {listen: ":8001"}\n')
    assert listening(str(path), {"AUTOHEDGE_SERVER_LISTEN": ":8002"}) == ("127.0.0.1", 8002)


def test_without_a_file_the_default_is_asked() -> None:
    assert listening(None, {}) == ("127.0.0.1", 8000)


def test_a_file_that_broke_after_the_start_does_not_make_a_server_sick(tmp_path: Path) -> None:
    """The server goes on with the old configuration; the check must not kill it."""
    path = tmp_path / "c.yaml"
    path.write_text("nothing: [\n")
    assert listening(str(path), {"AUTOHEDGE_SERVER_LISTEN": ":8002"}) == ("127.0.0.1", 8002)
    assert listening(str(path), {"AUTOHEDGE_QUEUE_SIZE": "many"}) == ("127.0.0.1", 8000)


def test_a_free_port_cannot_be_guessed() -> None:
    with pytest.raises(ValueError, match="--url"):
        listening(None, {"AUTOHEDGE_SERVER_LISTEN": ":0"})


@pytest.mark.parametrize(
    ("ask", "status", "body", "well"),
    [
        ("liveness", 200, b"OK", True),
        ("liveness", 500, b"", False),
        ("startup", 503, b'{"status": "starting"}', False),
        ("startup", 503, b'{"status": "unhealthy"}', True),
        ("startup", 503, b'{"status": "draining"}', True),
        ("startup", 200, b'{"status": "ok"}', True),
        ("startup", 404, b'{"error": {}}', False),
        ("readiness", 200, b'{"status": "degraded"}', True),
        ("readiness", 503, b'{"status": "unhealthy"}', False),
        ("readiness", 200, b"not json", False),
    ],
)
def test_what_is_well(ask: str, status: int, body: bytes, well: bool) -> None:
    """`startup` waits for the gate alone: later the loss of every backend restarts nobody."""
    assert judge(ask, status, body)[0] is well


async def _asked(url: str, *words: str) -> int:
    return await asyncio.to_thread(healthcheck.run, ["--url", url, *words], {})


def test_a_living_server_is_well_without_a_backend() -> None:
    """Liveness speaks of the process: backends that are away restart nobody."""

    async def main() -> list[int]:
        async with alone(config=EMPTY) as edge:
            return [await _asked(edge.url, "--ask", ask) for ask in ("liveness", "startup", "readiness")]

    assert run(main()) == [0, 0, 1]


def test_a_served_model_is_well_in_every_sense() -> None:
    async def main() -> list[int]:
        async with alone(config=ALONE) as edge:
            await edge.chat()
            return [await _asked(edge.url, "--ask", ask) for ask in ("liveness", "startup", "readiness")]

    assert run(main()) == [0, 0, 0]


def test_a_closed_startup_gate_is_alive_and_not_started() -> None:
    """A rolling update waits with `--ask startup` until the new task can serve."""

    async def main() -> list[int]:
        async with alone(config=SHUT) as edge:
            return [await _asked(edge.url, "--ask", ask) for ask in ("liveness", "startup")]

    assert run(main()) == [0, 1]


def test_nobody_there_is_a_1_and_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert healthcheck.run(["--url", "http://127.0.0.1:1"], {}) == 1
    assert "ConnectionRefusedError" in capsys.readouterr().err


def test_a_server_that_never_answers_is_a_1_in_time() -> None:
    """A hung process takes connections and says nothing."""

    async def main() -> int:
        async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await over.wait()
            writer.close()
            await writer.wait_closed()

        over = asyncio.Event()

        server = await asyncio.start_server(hang, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            async with asyncio.timeout(60):
                code = await _asked(f"http://127.0.0.1:{port}", "--timeout", "0.2")
            over.set()
            await asyncio.sleep(0.05)
            return code

    assert run(main()) == 1


def test_something_else_on_the_port_is_a_1() -> None:
    async def main() -> int:
        async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"SSH-2.0-x\r\n")
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with server:
            return await _asked(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")

    assert run(main()) == 1


@pytest.mark.parametrize("url", ["ftp://h", "127.0.0.1:8000", "http://"])
def test_a_url_that_is_none_is_a_1(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert healthcheck.run(["--url", url], {}) == 1
    assert "http://host:port" in capsys.readouterr().err


def test_it_imports_no_proxy() -> None:
    """It runs every few seconds in every container: neither FastAPI nor the doors are loaded for it."""
    code = (
        "import sys; from autohedge.light import main; assert main(['healthcheck', '--url', 'http://127.0.0.1:1']) == 1;"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", "import json;" + code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & {"fastapi", "uvicorn", "httpx", "docker", "autohedge.app", "autohedge.doors"}
