"""The console's first step: what starts fast, and what goes on to the command line proper."""

from __future__ import annotations

import subprocess
import sys

import pytest

from autohedge import __version__, cli, light


def test_other_commands_go_to_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert light.main(["version"]) == 0
    assert capsys.readouterr().out.split()[0] == __version__


@pytest.mark.parametrize("main", [light.main, cli.main])
@pytest.mark.parametrize("name", light.LIGHT)
def test_a_light_command_is_known_to_both(name: str, main: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(main)
    with pytest.raises(SystemExit) as raised:
        main([name, "--help"])
    assert raised.value.code == 0
    assert f"usage: autohedge {name}" in capsys.readouterr().out


def test_the_help_names_every_light_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        light.main(["--help"])
    said = capsys.readouterr().out
    for name in light.LIGHT:
        assert name in said


def test_the_environment_is_heard() -> None:
    """The address comes from the environment of the process."""
    env = {"PATH": "/usr/bin", "AUTOHEDGE_SERVER_LISTEN": "127.0.0.1:1"}
    done = subprocess.run(
        [sys.executable, "-m", "autohedge", "healthcheck"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "ConnectionRefusedError" in done.stderr
