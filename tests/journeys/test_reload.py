"""Journeys across a change of the configuration: what is valid is taken over whole, what is not changes nothing."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

import pytest

from tests.support.canned import held
from tests.support.house import HELLO, PAIR, SERVER, Edge, eventually, house, run, vllm


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is looked at ten times a second."""
    monkeypatch.setattr("autohedge.reloading.POLL", 0.1)
    monkeypatch.setattr("autohedge.reloading.SETTLED", 0.01)


ONE = SERVER + 'upstream_registry:\n  first: {host: "${ONE}"}\n'
TWO = SERVER + 'upstream_registry:\n  second: {host: "${TWO}"}\n'


def _told(caplog: pytest.LogCaptureFixture, words: str) -> int:
    return sum(words in record.getMessage() for record in caplog.records)


def _hang_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)


async def _served_by(edge: Edge) -> str:
    return (await edge.chat()).backend


@pytest.mark.parametrize("how", ["file", "SIGHUP"])
def test_a_valid_change_is_taken_over(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New backends, limits and log level hold for the next request; a stream that is running ends on its old engine."""

    async def main() -> None:
        path = tmp_path / "autohedge.yaml"
        worker = held(stream=True)
        if how == "SIGHUP":  # nobody looks at the file
            monkeypatch.setattr("autohedge.reloading.POLL", 600)
        async with house(ONE, path, one=worker.engine, two=vllm()) as edge:
            running = asyncio.create_task(edge.stream())
            await eventually(lambda: edge.busy == 1)
            path.write_text(TWO)
            if how == "SIGHUP":
                _hang_up()
            await eventually(lambda: "first" not in edge.house.registry.snapshot.backends)
            await eventually(lambda: "m" in edge.house.registry.snapshot.routes)
            assert await _served_by(edge) == "second"
            worker.free.set()
            heard = await running
            assert heard.backend == "first"
            assert heard.errors == []
            assert heard.body.endswith(b"[DONE]\n\n")

    run(main())


@pytest.mark.parametrize(
    "text",
    ["upstream_registry: [", SERVER + "unknown: 1\n", SERVER + "upstream_registry: {first: {host: 5}}\n", "\n", ""],
    ids=["no YAML", "unknown key", "wrong type", "nothing in it", "gone"],
)
def test_an_invalid_change_changes_nothing(text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The old state goes on, one warning says why with the line; the next valid text is taken."""

    async def main() -> None:
        path = tmp_path / "autohedge.yaml"
        async with house(ONE, path, one=vllm(), two=vllm()) as edge:
            if text:
                path.write_text(text)
            else:
                path.unlink()
            await eventually(lambda: _told(caplog, "the changed configuration is wrong") > 0)
            await asyncio.sleep(0.35)  # longer than the look at the file: nothing is told twice
            assert _told(caplog, "the changed configuration is wrong") == 1
            assert await _served_by(edge) == "first"
            path.write_text(TWO)
            _hang_up()
            await eventually(lambda: "second" in edge.house.registry.snapshot.backends)

    with caplog.at_level(logging.WARNING, "autohedge"):
        run(main())


def test_settings_that_hold_at_once(tmp_path: Path) -> None:
    """Attempts, body limit, time-outs, validation, log level, queue and names in answers follow the file."""
    changed = PAIR.replace("grace", "max_body_bytes: 1000, access_log: info, grace")
    changed += "queue: {size: 3}\nfailover: {attempts: 1}\nopenai: {model_override: shown}\nvalidation: {mode: off}\n"

    async def main() -> None:
        path = tmp_path / "autohedge.yaml"
        async with house(PAIR, path, one=vllm(), two=vllm()) as edge:
            path.write_text(changed)
            _hang_up()
            await eventually(lambda: edge.house.settings.queue.size == 3)
            assert edge.house.room.size == 3
            assert (await edge.chat()).json["model"] == "shown"
            assert (await edge.post(b"x" * 1001)).status == 413
            edge.one.set_faults("status=500")
            edge.two.set_faults("status=500")
            heard = await edge.chat()
            assert heard.headers["x-autohedge-attempts"] == "1"
            assert edge.house.edge.log.on
            edge.one.set_faults()
            edge.two.set_faults()
            refused = await edge.chat(max_tokens=10**9)
            assert "max_model_len" in refused.error["message"]  # the engine's own words: we do not check any more
            assert "x-autohedge-backend" in refused.headers

    run(main())


def test_what_takes_a_restart_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A setting that is read once is never silently ignored."""
    changed = PAIR.replace("connect: 5s", "connect: 1s") + "learning: {interval: 30s}\nstate: {prefix: 'other:'}\n"

    async def main() -> None:
        path = tmp_path / "autohedge.yaml"
        async with house(PAIR, path, one=vllm(), two=vllm()):
            path.write_text(changed)
            _hang_up()
            await eventually(lambda: _told(caplog, "taken over") > 0)

    with caplog.at_level(logging.INFO, "autohedge"):
        run(main())
    for name in ("timeouts.connect", "learning", "state"):
        assert f"{name} takes a restart to change" in caplog.text


def test_an_azure_version_follows_the_file(tmp_path: Path) -> None:
    """Paths are made anew when a backend changes: a new api_version is in the next request."""
    old = (
        SERVER
        + 'upstream_registry:\n  az: {provider: azure, host: "${ONE}", model: m, deployment: m, api_version: "2024-01-01"}\n'
    )

    async def main() -> None:
        path = tmp_path / "autohedge.yaml"
        async with house(old, path, one=vllm()) as edge:
            await edge.chat()
            assert edge.one.last_request is not None
            assert edge.one.last_request.query["api-version"] == "2024-01-01"
            path.write_text(old.replace("2024", "2026"))
            _hang_up()
            await eventually(lambda: edge.house.registry.snapshot.backends["az"].params["api_version"] == "2026-01-01")
            await edge.chat()
            assert edge.one.last_request.query["api-version"] == "2026-01-01"

    run(main())


def test_requests_in_flight_do_not_feel_a_change(tmp_path: Path) -> None:
    """Fifty streams run while the file changes ten times: all are whole."""

    async def main() -> None:
        path = tmp_path / "autohedge.yaml"
        worker = held(stream=True)
        async with house(ONE, path, one=worker.engine, two=vllm()) as edge:
            running = [asyncio.create_task(edge.post(HELLO | {"stream": True})) for _ in range(50)]
            await eventually(lambda: edge.work["one"] == 50)
            for number in range(10):
                path.write_text((ONE, TWO)[number % 2])
                _hang_up()
                await asyncio.sleep(0.05)
            worker.free.set()
            heard = await asyncio.gather(*running)
            assert all(one.body.endswith(b"[DONE]\n\n") and one.errors == [] for one in heard)

    run(main())
