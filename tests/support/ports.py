"""Ports that keep: nobody gets one by chance while its server is down.

A port that the system chose is given to the next one who asks as soon as it is free. These lie below the range that it chooses
from, and every process of a parallel run has a part of its own.
"""

from __future__ import annotations

import os
import random
import socket

LOWEST, HIGHEST = 10_000, 30_000  # Linux chooses from 32768 on
PARTS = 16


def free_port(host: str = "127.0.0.1") -> int:
    """One on which nobody listens."""
    size = (HIGHEST - LOWEST) // PARTS
    part = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % PARTS
    while True:
        port = LOWEST + part * size + random.randrange(size)
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
