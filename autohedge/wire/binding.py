"""The socket that requests come to.

It must not know: who takes them.
"""

from __future__ import annotations

import socket

from autohedge.wire.lifeline import to_caller

BACKLOG = 2048


def bound(bind: tuple[str, int], *, shared: bool) -> socket.socket:
    """A socket bound to host and port; `shared`: others may bind it too. Raises OSError when the address is taken."""
    host, port = bind
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        for option in to_caller():
            made.setsockopt(*option)
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    return made


def ours(bind: tuple[str, int]) -> socket.socket:
    """A shared socket for a port at which nobody else listens. Raises OSError when the address is taken.

    Two services that both share would get each other's callers without a word; who shares not is refused beside who does.
    """
    bound(bind, shared=False).close()
    return bound(bind, shared=True)


def listen(bind: tuple[str, int], *, shared: bool = False) -> socket.socket:
    """A listening socket; raises OSError when the address is taken."""
    listener = bound(bind, shared=shared)
    try:
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
