"""One worker process for tests: it shares state with others and tells on standard output what it hears.

    python -m tests.state.worker <url> <folder> <name> [writes]

READY, then one line "HEARD key" per change; with `writes` it writes one fact, waits until the store has it, then says READY.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import uvloop

from autohedge.state.opening import open_store
from autohedge.state.resilient import Shared


async def main(url: str, folder: str, name: str, *words: str) -> None:
    shared = Shared(open_store(url, "test:", Path(folder), time.time), name, time.time)
    shared.on_change("", lambda key, _value: print(f"HEARD {key}", flush=True))
    async with asyncio.TaskGroup() as group:
        group.create_task(shared.run())
        assert await shared.ready(60)
        if words:
            shared.put_soon("retired:p:*", {"by": name})
            assert await shared.flushed(60)
        print("READY now", flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(*sys.argv[1:]))
