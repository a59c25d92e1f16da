"""The command line: `autohedge serve | check | quickstart | version`, and the light ones of `light.py`.

It reads the environment once and hands it on. Exit codes: 0 done, 1 the configuration is wrong, the port is taken or a source of `check --discover` is blind, 2 the
command line is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from autohedge import __version__, compiled
from autohedge.core.types import Blind
from autohedge.demo import quickstart
from autohedge.light import LIGHT, light
from autohedge.reloading import read_file
from autohedge.settings.effective import render
from autohedge.settings.eidex import Start, is_eidex, started
from autohedge.settings.load import ConfigErrors, load
from autohedge.starting import serve

EIDEX = ("-config", "--config")  # its one flag; programs in Go take either spelling
QUICKSTART = Path(__file__).resolve().parent.parent / "config" / "quickstart.yaml"


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in LIGHT:
        return light(words)
    if words and words[0].startswith(EIDEX):
        words = ["serve", f"-{words[0].lstrip('-')}", *words[1:]]  # eidex has no other command
    elif not words and is_eidex(_start().env):
        words = ["serve"]
    parser = argparse.ArgumentParser(
        prog="autohedge", description="Edge proxy for LLM servers: sees whether the model answers."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (
        ("serve", "run the proxy"),
        ("check", "print the effective configuration and every fault in it"),
    ):
        command = commands.add_parser(name, help=what)
        command.add_argument("--config", help="YAML file (or AUTOHEDGE_CONFIG)")
        if name == "check":
            command.add_argument(
                "--discover",
                action="store_true",
                help="look once at every source; tell what it finds and what it ignores",
            )
        command.add_argument("-config", dest="eidex", metavar="FILE", help="the same, started as eidex (eidex's mode)")
    commands.add_parser("quickstart", help="run the proxy with two engines of its own on this machine")
    for name, (_, what) in LIGHT.items():
        commands.add_parser(name, help=f"{what} (autohedge {name} --help)")
    commands.add_parser("version", help="print the version")
    asked = parser.parse_args(words)
    if asked.command == "version":
        print(f"{__version__} (compiled)" if compiled() else __version__)
        return 0
    if asked.command == "quickstart":
        return run_quickstart()
    start = _start(asked.eidex, asked.config)
    return check(start, discover=asked.discover) if asked.command == "check" else serve(*start)


def _start(flag: str | None = None, own: str | None = None) -> Start:
    return started(flag, own, os.environ, lambda path: Path(path).exists())


def check(start: Start, *, discover: bool = False) -> int:
    """Print the effective configuration with the origin of every value, and with `discover` what the sources see; 1 when there
    is a fault in it or a source is blind.
    """
    try:
        loaded = load(*start, read_file)
    except ConfigErrors as errors:
        print(errors, file=sys.stderr)
        return 1
    print(render(loaded))
    for warning in loaded.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if not discover:
        return 0
    # The sources and what they ask with are a third of the proxy; `serve` begins here as well.
    from autohedge.surveying import survey, told  # noqa: PLC0415

    sweeps = asyncio.run(survey(loaded.settings, os.environ, read_file))
    for name, sweep in sweeps.items():
        print("\n".join(told(name, sweep)))
    return 1 if any(isinstance(sweep, Blind) for sweep in sweeps.values()) else 0


def run_quickstart() -> int:
    folder = Path(os.environ.get("AUTOHEDGE_DATA", ".autohedge"))
    engines = quickstart.start_engines(folder)
    try:
        env = quickstart.environment(os.environ, engines)
        return serve(str(QUICKSTART), env, lambda url: print(quickstart.hints(url, engines), flush=True))
    finally:
        quickstart.stop_engines(engines)
