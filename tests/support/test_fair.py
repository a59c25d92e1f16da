"""Unit tests of the watch of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tests.support.fair import Watch


def test_a_wait_counts() -> None:
    """Who sleeps waits, on an idle machine and on a busy one."""
    watch = Watch()
    time.sleep(0.1)
    assert watch.wall >= 0.1
    assert watch.seconds > 0.05


def test_a_processor_that_others_have_does_not() -> None:
    """Four processes on one processor: three quarters of the time pass in its queue, and the watch stands there."""
    mine = os.sched_getaffinity(0)
    others: list[subprocess.Popen[bytes]] = []
    os.sched_setaffinity(0, {min(mine)})  # children inherit it
    try:
        others += [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
        watch, used = Watch(), time.process_time()
        while watch.wall < 60 and time.process_time() - used < 0.3:
            pass
        assert watch.seconds < 0.8 * watch.wall
    finally:
        os.sched_setaffinity(0, mine)
        for other in others:
            other.kill()
            other.wait()
