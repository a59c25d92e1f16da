"""`autohedge engine`: a sample engine as a process of its own.

It prints one line `READY http://host:port` when it listens, and ends with status 0 on SIGTERM or SIGINT: at once, or with
`--drain` after the answers in progress. It says `ENDING` when the signal comes.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Mapping, Sequence

from autohedge.core.types import Kind
from autohedge.engine.faults import listing, order
from autohedge.engine.sample import SampleEngine
from autohedge.engine.text import NATURAL
from autohedge.parent import announce, end_with_parent

try:
    from uvloop import new_event_loop
except ImportError:  # not there on Windows
    from asyncio import new_event_loop  # type: ignore[assignment]

KINDS = [kind.value for kind in Kind if kind is not Kind.AUTO]


def parser() -> argparse.ArgumentParser:
    """The command line of `autohedge engine`."""
    found = argparse.ArgumentParser(
        "autohedge engine", description="Run a sample engine: a test double of an LLM server."
    )
    found.add_argument("--kind", choices=KINDS, default="openai-compatible", help="whose dialect it speaks")
    found.add_argument("--host", default="127.0.0.1")
    found.add_argument("--port", type=int, default=0, help="0 takes a free one")
    found.add_argument("--model", default="sample-model", help="the model it serves (azure: the deployment)")
    found.add_argument("--name", default="", help="first word of every answer; default kind@port")
    found.add_argument("--context", type=int, default=4096, help="window in tokens; one word is one token")
    found.add_argument("--pace", type=float, default=0.0, help="tokens per second; 0 is at once")
    found.add_argument("--latency", type=float, default=0.0, help="milliseconds before the first byte of a work answer")
    found.add_argument("--slots", type=int, help="answers worked on at once; more wait without a byte")
    found.add_argument("--words", type=int, default=NATURAL, help="words of an answer that nothing cuts short")
    found.add_argument(
        "--drain", type=float, default=0.0, help="seconds that answers in progress may take after SIGTERM"
    )
    found.add_argument("--key", help="the credential it demands, in its kind's header")
    found.add_argument(
        "--fault", action="append", default=[], metavar="NAME[=ARG][:times=N][:for=S][:after=N][:on=WHERE]"
    )
    found.add_argument("--list-faults", action="store_true", help="print the faults and end")
    found.add_argument("--with-parent", type=int, metavar="PID", help="end with the process that started this one")
    return found


def run(argv: Sequence[str], _env: Mapping[str, str]) -> int:
    """Run until a signal comes. Bad arguments end with status 2 (SystemExit), a taken port with status 1."""
    command = parser()
    given = command.parse_args(argv)
    if given.with_parent:
        end_with_parent(given.with_parent)
    if given.list_faults:
        print(listing())
        return 0
    try:
        for text in given.fault:
            order(text)
    except ValueError as error:
        command.error(str(error))
    engine = SampleEngine(
        kind=given.kind,
        model=given.model,
        context=given.context,
        name=given.name,
        key=given.key,
        pace=given.pace,
        latency=given.latency / 1000,
        slots=given.slots,
        words=given.words,
        host=given.host,
        port=given.port,
        faults=given.fault,
    )
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        try:
            runner.run(_serve(engine, given.drain))
        except OSError as error:
            print(f"cannot listen on {given.host}:{given.port}: {error.strerror}", flush=True)
            return 1
    return 0


async def _serve(engine: SampleEngine, drain: float) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    announce(await engine.start())
    await ended.wait()
    print("ENDING", flush=True)
    await engine.drain(drain)
