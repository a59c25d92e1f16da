"""`make bench`: AutoHedge beside nginx as a proxy, and beside the Rust router smg, in one run on one machine.

    python -m bench.run [--seconds N] [--rounds N] [--without-smg] [--with-litellm]

AutoHedge runs from its sources and, where `make fast` found a C compiler, with its data path compiled: two rows.
Two cores: the proxy under test on core 0; the load and the one backend (nginx, constant answers) on core 1. All contenders
take turns, several rounds, so that a busy minute of the machine hits all of them. What is compared is CPU time per request
and the latency that the hop adds; absolute figures belong to the machine. Load goes to 127.0.0.1 only.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from bench import parts
from bench.contenders import Backend, Contender, litellm, nginx, ours, smg
from bench.machine import Load, Process, missing, wait_for, wrk

BODY = '{"model":"m","messages":[{"role":"user","content":"%s"}],"max_tokens":16,"temperature":0.7}' % ("hello " * 155)
WRONG = '{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":1000000}'


def script(folder: Path, name: str, body: str) -> Path:
    path = folder / f"{name}.lua"
    path.write_text(f"wrk.method='POST'\nwrk.headers['Content-Type']='application/json'\nwrk.body=[==[{body}]==]\n")
    return path


class Figures:
    """What was measured of one contender, over all rounds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cpu: list[float] = []  # microseconds per request
        self.rate: list[float] = []
        self.p99: list[float] = []
        self.single: list[float] = []  # p50 in ms at one connection
        self.errors = 0
        self.rss = 0.0
        self.ready = 0.0

    def take(self, load: Load, used: float) -> None:
        self.cpu.append(used / load.requests * 1e6)
        self.rate.append(load.rate)
        self.p99.append(load.p99)
        self.errors += load.errors


def measure(contender: Contender, figures: Figures, good: Path, seconds: float) -> None:
    """One turn of one contender: started, warmed, loaded with 32 connections and then with one, stopped."""
    process = contender.start()
    try:
        figures.ready = wait_for(contender.ready_url)
        wrk(contender.url, good, 8, 1, 1)
        before = process.cpu()
        load = wrk(contender.url, good, 32, seconds, 1)
        figures.take(load, process.cpu() - before)
        figures.single.append(wrk(contender.url, good, 1, max(2, seconds / 3), 1).p50)
        figures.rss = process.rss()
    finally:
        process.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.run", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-smg", action="store_true")
    parser.add_argument("--with-litellm", action="store_true")
    asked = parser.parse_args()
    lacking = missing(["nginx", "wrk", "taskset"])
    if lacking:
        print(
            f"bench: not installed: {', '.join(lacking)} (Debian: apt-get install nginx-light wrk util-linux)",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="autohedge-bench-") as name:
        folder = Path(name)
        backend = Backend.start(folder)
        try:
            run(asked, folder, backend)
        finally:
            backend.stop()
    return parts.main()


def run(asked: argparse.Namespace, folder: Path, backend: Backend) -> None:
    good, wrong = script(folder, "good", BODY), script(folder, "wrong", WRONG)
    mine = ours(folder, backend)
    contenders = [nginx(folder, backend), *mine]
    contenders += [] if asked.without_smg else smg(folder, backend)
    contenders += litellm(folder, backend) if asked.with_litellm else []
    figures = {contender.name: Figures(contender.name) for contender in contenders}
    for number in range(asked.rounds):
        for contender in contenders:
            print(f"round {number + 1}/{asked.rounds}: {contender.name}", file=sys.stderr)
            measure(contender, figures[contender.name], good, asked.seconds)
    direct = statistics.median(wrk(backend.url, good, 1, 2, 1).p50 for _ in range(asked.rounds))
    table(figures, direct)
    alone(mine[-1], good, wrong)


def table(figures: dict[str, Figures], direct: float) -> None:
    base = statistics.median(figures["nginx"].cpu)
    rust = statistics.median(figures["smg"].cpu) if "smg" in figures else None
    print(
        "\n| proxy | CPU us/request | x nginx | x smg | requests/s | p99 ms (32 conn.) | p50 added ms (1 conn.) | RSS MiB | ready s | errors |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for one in figures.values():
        cpu = statistics.median(one.cpu)
        ratio = f"{cpu / rust:.2f}" if rust else "-"
        print(
            f"| {one.name} | {cpu:.1f} | {cpu / base:.2f} | {ratio} | {statistics.median(one.rate):,.0f} | {statistics.median(one.p99):.2f} "
            f"| {statistics.median(one.single) - direct:.3f} | {one.rss:.0f} | {one.ready:.2f} | {one.errors} |"
        )


def alone(ours: Contender, good: Path, wrong: Path) -> None:
    """What only AutoHedge is asked: the time of a 400, and whether memory stays flat over 100,000 requests."""
    print(f"\n{ours.name} alone:")
    process: Process = ours.start()
    try:
        wait_for(ours.ready_url)
        before = process.cpu()
        refused = wrk(ours.url, wrong, 1, 2, 1)
        print(
            f"a 400 for max_tokens: p50 {refused.p50:.3f} ms, CPU {(process.cpu() - before) / refused.requests * 1e6:.0f} us"
        )
        done = 0
        marks = []
        while done < 100_000:
            done += wrk(ours.url, good, 32, 3, 1).requests
            marks.append(process.rss())
        print(f"memory: {marks[0]:.1f} MiB after the first 3 s, {marks[-1]:.1f} MiB after {done:,} requests")
    finally:
        process.stop()


if __name__ == "__main__":
    raise SystemExit(main())
