"""The source that follows a file. Real files and real time: threads read them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from autohedge.core.types import Blind, Seen
from autohedge.settings.errors import ConfigError, ConfigErrors
from autohedge.sources.file import LIMIT, FileSource
from tests.support.world import backend


def parse(text: str) -> Seen:
    """One backend per line; "!" is a mistake."""
    lines = text.split()
    if "!" in lines:
        raise ConfigErrors("endpoints", [ConfigError(lines.index("!") + 1, "models", "no such thing")])
    if "?" in lines:
        raise ValueError
    return Seen(tuple(backend(line, line) for line in lines))


def names(sweep: object) -> list[str]:
    assert isinstance(sweep, Seen), sweep
    return [spec.name for spec in sweep.backends]


def reason(sweep: object) -> str:
    assert isinstance(sweep, Blind), sweep
    return sweep.reason


def test_it_follows_the_content(tmp_path: Path) -> None:
    """B26: a valid edit shows at the next look, a file replaced by an editor as well."""
    path = tmp_path / "endpoints"

    async def main() -> None:
        source = FileSource(str(path), parse)
        path.write_text("a b")
        assert names(await source.look()) == ["a", "b"]
        path.write_text("b c")
        assert names(await source.look()) == ["b", "c"]
        (tmp_path / "new").write_text("d")
        (tmp_path / "new").replace(path)
        assert names(await source.look()) == ["d"]

    asyncio.run(main())


def test_it_parses_only_what_changed(tmp_path: Path) -> None:
    """The same content gives the same answer without a parse; touching the file is no change."""
    path = tmp_path / "endpoints"
    path.write_text("a")
    parsed = []

    def counting(text: str) -> Seen:
        parsed.append(text)
        return parse(text)

    async def main() -> None:
        source = FileSource(str(path), counting)
        first = await source.look()
        path.touch()
        assert await source.look() is first
        assert parsed == ["a"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "cannot read {path}: No such file or directory"),
        (b"a\n!", "endpoints:2: models: no such thing"),
        (b"?", "{path} cannot be parsed"),
        (b"a\xff", "{path} is not UTF-8 (byte 1)"),
        (b"x" * (LIMIT + 1), "{path} is over 8 MiB"),
    ],
)
def test_a_bad_file_blinds_and_a_good_one_heals(tmp_path: Path, content: bytes | None, expected: str) -> None:
    """B8, B26: the reason says what and where; nothing is half taken; the next good content is seen."""
    path = tmp_path / "endpoints"
    path.write_text("a")

    async def main() -> None:
        source = FileSource(str(path), parse)
        assert names(await source.look()) == ["a"]
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        assert reason(await source.look()) == expected.format(path=path)
        assert reason(await source.look()) == expected.format(path=path)
        path.write_text("a")
        assert names(await source.look()) == ["a"]

    asyncio.run(main())


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    """A wrong mount gives a reason, not an exception."""
    assert "Is a directory" in reason(asyncio.run(FileSource(str(tmp_path), parse).look()))


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    """Files of Windows editors."""
    path = tmp_path / "endpoints"
    path.write_bytes(b"\xef\xbb\xbfa")
    assert names(asyncio.run(FileSource(str(path), parse).look())) == ["a"]


def test_it_hints_when_the_file_was_changed_appeared_or_went(tmp_path: Path) -> None:
    """B26: seen within the interval; an untouched file never hints, and a missing one does not hint all the time."""
    path = tmp_path / "endpoints"

    async def hinted(source: FileSource, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await source.hint()
        except TimeoutError:
            return False
        return True

    async def main() -> None:
        source = FileSource(str(path), parse, interval=0.01)
        await source.look()
        assert not await hinted(source, 0.1)
        path.write_text("a")
        assert await hinted(source, 60)
        await source.look()
        assert not await hinted(source, 0.1)
        os.utime(path, ns=(1, 1))
        assert await hinted(source, 60)
        await source.look()
        path.unlink()
        assert await hinted(source, 60)

    asyncio.run(main())
