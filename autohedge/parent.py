"""A child and who started it: no worker, and no engine of the quickstart or of a test, outlives its parent; what it announces
arrives whole.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

PR_SET_PDEATHSIG = 1  # prctl(2)


def end_with_parent(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel for this signal when the parent's thread that started us dies (Linux; elsewhere nothing happens). The
    parent itself says its process id: one that died while we were loaded has left us to another.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def announce(url: str) -> None:
    """Say `READY url` and the line's end in one write, which a pipe takes whole (pipe(7), PIPE_BUF). llama.cpp logs from a thread
    of its own, piece by piece; in a pipe that takes both, a piece falls between the writes of an unbuffered print.
    """
    sys.stdout.write(f"READY {url}\n")
    sys.stdout.flush()


def watch_parent() -> None:
    """In a child of multiprocessing: end as soon as the process that started it is gone, however it went. The thread that started
    us may go before.
    """
    import multiprocessing  # noqa: PLC0415  such a child has it already, the others have no use for it

    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
