"""The command line: what each word does, and the exit code it ends with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from autohedge import __version__, cli
from autohedge.settings.eidex import is_eidex

GOOD = "server: {listen: ':0'}\nupstream_registry:\n  a: {host: h, api_key: '${KEY}'}\n"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AUTOHEDGE_CONFIG", "EIDEX_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AUTOHEDGE_DATA", str(tmp_path))


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return str(path)


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli, "compiled", lambda: False)
    assert cli.main(["version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


def test_check_prints_what_holds_and_where_it_comes_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The effective configuration with the origin of each value; no secret in it."""
    monkeypatch.setenv("KEY", "sk-secret")
    monkeypatch.setenv("AUTOHEDGE_QUEUE_SIZE", "7")
    assert cli.main(["check", "--config", written(tmp_path, GOOD)]) == 0
    shown = capsys.readouterr().out
    assert "config.yaml line 1" in shown
    assert "AUTOHEDGE_QUEUE_SIZE" in shown
    assert "sk-secret" not in shown


def test_check_tells_every_fault_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Line numbers, the nearest known key, exit code 1; A44: the variable's name."""
    text = "server: {lisen: ':0'}\nqueue: {size: many}\nupstream_registry:\n  a: {host: h, api_key: '${NOT_SET}'}\n"
    assert cli.main(["check", "--config", written(tmp_path, text)]) == 1
    said = capsys.readouterr().err
    for word in ("config.yaml:1: ", "listen", "config.yaml:2: ", "queue.size", "NOT_SET"):
        assert word in said


def test_serve_with_a_wrong_configuration(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A44: said in words, exit code 1, nothing listens."""
    assert cli.main(["serve", "--config", written(tmp_path, "nothing: 1\n")]) == 1
    assert "the configuration is wrong" in caplog.text


def test_serve_without_a_file(tmp_path: Path) -> None:
    assert cli.main(["serve", "--config", str(tmp_path / "none.yaml")]) == 1


def test_the_file_may_be_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AUTOHEDGE_CONFIG", written(tmp_path, "queue: {size: 3}\n"))
    assert cli.main(["check"]) == 0
    assert "config.yaml line 1" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["dance"], ["serve", "--nothing"]])
def test_a_wrong_command_line_is_a_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        cli.main(words)
    assert raised.value.code == 2
    assert "usage: autohedge" in capsys.readouterr().err


def test_it_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "autohedge", "version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[0]) == (0, __version__)


def test_version_tells_a_compiled_data_path(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "compiled", lambda: True)
    assert cli.main(["version"]) == 0
    assert capsys.readouterr().out == f"{__version__} (compiled)\n"


# --- started as eidex ---------------------------------------------------------------------------------------------------


def test_check_as_eidex_tells_unknown_keys_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """E86, E89: the flag -config; its default port."""
    assert cli.main(["check", "-config", written(tmp_path, "older: 1\nmodels: [{id: dex}]\n")]) == 0
    told = capsys.readouterr()
    assert "0.0.0.0:8080" in told.out
    assert "older" in told.err


def test_a_bare_flag_is_eidex_s_whole_command_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """E88: `-config FILE` serves; an invalid file is exit code 1. eidex, as all programs in Go, takes two dashes as well."""
    for dashes in ("-", "--"):
        for words in (
            [f"{dashes}config", written(tmp_path, "server: [")],
            [f"{dashes}config={written(tmp_path, 'server: 5')}"],
        ):
            caplog.clear()
            assert cli.main(words) == 1
            assert "the configuration is wrong" in caplog.text


@pytest.mark.parametrize("words", [["-config"], ["--config"], ["serve", "-config"]])
def test_a_flag_without_a_command_is_eidex_s(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one it is what the command says: `serve --config` is ours."""
    begun: list[tuple[str, bool]] = []

    def serve(config: str, env: Mapping[str, str]) -> int:
        begun.append((config, is_eidex(env)))
        return 0

    monkeypatch.setattr(cli, "serve", serve)
    file = written(tmp_path, GOOD)
    assert cli.main([*words, file]) == 0
    assert cli.main(["serve", "--config", file]) == 0
    assert begun == [(file, True), (file, False)]


@pytest.mark.parametrize("name", ["EIDEX_CONFIG", "EIDEX_SERVER_LISTEN", "EIDEX_SERVER_ACCESS_LOG"])
def test_without_a_word_it_serves_where_the_environment_is_eidex_s(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """eidex is started without any word; elsewhere that is a mistake, and the commands are told."""
    with pytest.raises(SystemExit):
        cli.main([])
    monkeypatch.setenv(name, written(tmp_path, "server: ["))
    assert cli.main([]) == 1
    assert "the configuration is wrong" in caplog.text


def test_a_missing_file_of_eidex_is_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """E87."""
    assert cli.main(["check", "-config", str(tmp_path / "none.yaml")]) == 0
    assert "defaults hold" in capsys.readouterr().err


def test_eidex_config_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """E108."""
    monkeypatch.setenv("EIDEX_CONFIG", written(tmp_path, "server: {listen: ':1234'}\n"))
    assert cli.main(["check"]) == 0
    assert ":1234" in capsys.readouterr().out
