"""Whether the machine at the other end is still there: what the kernel asks it, and what the kernel has heard of it.

Rules
- An engine may say nothing for minutes. Its kernel may not: it acknowledges while the engine computes, hangs or is stopped.
- While nothing is under way to it, keep-alive probes ask. When the last of them has no answer, the kernel ends the connection.
- While something is, the kernel sends no probes but the same bytes again, for a quarter of an hour. So it is asked how long it
  has heard nothing (TCP_INFO), each time that a wait has become as long as that.
- TCP_USER_TIMEOUT would need no question, but it ends living connections as well: those whose peer acknowledges and has no
  room for more, as an engine that is busy while the 400 kB of a long prompt arrive (tcp(7)).
- A caller's connection may have that: who takes nothing for so long is treated as one who left.

Where a system lacks an option, the other time limits hold alone. It must not know: HTTP, what is waited for, who is blamed.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from functools import cache

Option = tuple[int, int, int]  # as setsockopt takes it

PROBES = 4
LONGEST = 32767  # seconds that the kernel takes for one step
CALLER = 120  # seconds; as good as gone for who stands in front of a screen, long for a network that has a moment
_INFO = struct.Struct("=2xBB40xI8xI")  # of Linux' struct tcp_info: retransmits, probes, last_data_sent, last_ack_recv
_ASKED = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None


@cache
def to_engine(seconds: float) -> tuple[Option, ...]:
    """Options of a connection to an engine, for one whose machine must be heard of every `seconds`; 0 asks nothing."""
    if not seconds:
        return ()
    bound = max(2, round(seconds))
    interval = max(1, min(bound // 6, LONGEST))
    idle = max(1, min(bound - PROBES * interval, LONGEST))
    return _keep_alive(idle, interval, min(PROBES, (bound - idle) // interval))


def to_caller() -> tuple[Option, ...]:
    """Options of a listening socket: those that it accepts inherit them."""
    return *_keep_alive(CALLER // 2, CALLER // 8, PROBES), *_known([("TCP_USER_TIMEOUT", 1000 * CALLER)])


def left(sock: socket.socket, seconds: float) -> float:
    """How many of the `seconds` the peer's machine may still say nothing. All of them, as long as nobody waits for its word."""
    if _ASKED is None:
        return seconds
    try:
        told = sock.getsockopt(socket.IPPROTO_TCP, _ASKED, _INFO.size)
    except OSError:  # it is gone, and the loop will tell
        return seconds
    return _left(told, seconds)


def _left(told: bytes, seconds: float) -> float:
    """The same, from what the kernel told. Sent again means twice: once is a packet lost. Bytes that are refused for want of
    room are sent again too, but acknowledged each time, with "no".
    """
    if len(told) < _INFO.size:
        return seconds
    retransmits, probes, sent, heard = _INFO.unpack(told)
    waits = (retransmits > 1 and sent < heard) or probes > 1
    return seconds - heard / 1000 if waits else seconds


def _keep_alive(idle: int, interval: int, count: int) -> tuple[Option, ...]:
    times = [("TCP_KEEPIDLE", idle), ("TCP_KEEPINTVL", interval), ("TCP_KEEPCNT", count)]
    return (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *_known(times)


def _known(options: Iterable[tuple[str, int]]) -> Iterator[Option]:
    """Those that this system has."""
    for name, value in options:
        if hasattr(socket, name):
            yield socket.IPPROTO_TCP, getattr(socket, name), value
