"""A child that ends with its parent, however that ends, and whose announcement arrives whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CHILD = (
    "import sys; from autohedge.parent import end_with_parent; end_with_parent(int(sys.argv[1])); print('up', flush=True); "
    "import time; time.sleep(60)"
)
PARENT = (
    "import os, subprocess, sys, time; "
    f"child = subprocess.Popen([sys.executable, '-c', {CHILD!r}, str(os.getpid())], stdout=subprocess.PIPE); "
    "child.stdout.readline(); "
    "print(child.pid, flush=True); time.sleep(60)"
)
ANNOUNCING = """
import os, threading
from autohedge.parent import announce

def log():
    while True:
        os.write(2, b"0.00.021 ")

threading.Thread(target=log, daemon=True).start()
for number in range(300):
    announce(f"http://127.0.0.1:{number}")
os._exit(0)
"""


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux does it")
def test_a_killed_parent_takes_its_child_along() -> None:
    """SIGKILL gives nobody time to clean up; no engine of a quickstart outlives it."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert running(child)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    until = time.monotonic() + 30
    while running(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not running(child)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux does it")
def test_a_child_whose_parent_died_while_it_was_loaded_does_not_begin() -> None:
    """A worker of a keeper that was killed at once had another parent by then, took that one for its own, and served on."""
    ended = subprocess.run([sys.executable, "-c", CHILD, "1"], capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, b"")


def test_what_a_child_announces_arrives_whole_amid_the_pieces_of_its_engine_s_log() -> None:
    """A log of another thread in the same pipe tore the READY line of llama.cpp apart: a test run in three waited in vain."""
    heard = subprocess.run(
        [sys.executable, "-u", "-c", ANNOUNCING],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
        text=True,
    ).stdout
    assert "0.00.021 " in heard, "the log and the announcements share the pipe"
    for number in range(300):
        assert f"READY http://127.0.0.1:{number}\n" in heard
