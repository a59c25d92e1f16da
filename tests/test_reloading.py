"""When the configuration is loaded again, and what only counts at the start."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from autohedge.reloading import RESTART, follow, read_again, text_of, unheard
from autohedge.settings.load import load_text
from autohedge.settings.model import Settings


def settings(text: str) -> Settings:
    return load_text(text, "c.yaml", {}, lambda path: path).settings


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("server: {access_log: info}", []),
        ("timeouts: {stall: 3s}", []),
        ("server: {listen: ':9'}", ["server.listen"]),
        ("learning: {interval: 5s}", ["learning"]),
        ("breaker: {window: 20}", ["breaker"]),
        ("probe: {enabled: false}", ["probe.enabled"]),
        ("probe: {interval: 3s}", []),
    ],
)
def test_what_takes_a_restart_is_named(text: str, names: list[str]) -> None:
    assert unheard(settings(""), settings(text)) == names


def test_every_name_in_the_list_is_a_setting() -> None:
    """A renamed setting would be forgotten here without a word."""
    assert unheard(settings(""), settings("")) == []
    assert len(set(RESTART)) == len(RESTART)


def test_a_changed_text_and_a_hangup_are_told(tmp_path: Path) -> None:
    """A touched file with the same text is no change; SIGHUP always is."""
    path = tmp_path / "c.yaml"
    path.write_text("a")

    async def main() -> None:
        told = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            following = group.create_task(follow(str(path), told.set))
            await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.wait_for(told.wait(), 60)
            told.clear()
            path.write_text("b")
            await asyncio.wait_for(told.wait(), 60)
            following.cancel()

    asyncio.run(main())


def test_a_text_that_is_being_written_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A beginning may be a valid file that wants less: what one look finds must be there at the next one."""
    looks = iter(["old", "wh", "whole"])
    monkeypatch.setattr("autohedge.reloading.text_of", lambda _path: next(looks, "whole"))
    monkeypatch.setattr("autohedge.reloading.POLL", 0.01)
    monkeypatch.setattr("autohedge.reloading.SETTLED", 0.01)
    left: list[int] = []

    async def main() -> None:
        told = asyncio.Event()

        def changed() -> None:
            left.append(len(list(looks)))
            told.set()

        following = asyncio.create_task(follow("c.yaml", changed))
        await asyncio.wait_for(told.wait(), 60)
        following.cancel()

    asyncio.run(main())
    assert left == [0]  # not before the whole text was seen


def test_an_empty_configuration_is_not_read_again(tmp_path: Path) -> None:
    """It is a file that somebody writes; a secret may be empty."""
    config, secret = tmp_path / "c.yaml", tmp_path / "secret"
    config.write_text(" \n")
    secret.write_text("")
    read = read_again(str(config))
    assert read(str(secret)) == ""
    with pytest.raises(OSError, match="empty"):
        read(str(config))
    config.write_text("a: 1")
    assert read(str(config)) == "a: 1"


def test_a_file_that_cannot_be_read_has_no_text(tmp_path: Path) -> None:
    assert text_of(str(tmp_path / "absent")) is None
    broken = tmp_path / "broken"
    broken.write_bytes(b"\xff\xfe\xff")
    assert text_of(str(broken)) is None
