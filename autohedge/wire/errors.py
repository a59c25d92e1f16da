"""How a transport failure leaves the wire room, and the one place where foreign exceptions are translated.

Rules
- Nothing but `WireError` leaves the client, apart from a cancellation.
- Its text is the text of its `Failure`: no address, no header, no word of the library that failed.

It must not know: verdicts, breakers, or what the caller does next.
"""

from __future__ import annotations

import errno
import ssl

from autohedge.core.types import Failure

_REFUSED = f"[Errno {errno.ECONNREFUSED}]"
# What the kernel gives up a standing connection with. The latter two are what it heard from the way there meanwhile.
_VANISHED = frozenset((errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH))


class WireError(Exception):
    """One exchange failed in transport.

    `failure` says how. `sent` is False only when no byte of the request can have reached the engine's application, so
    that another try cannot do the work twice.
    """

    def __init__(self, failure: Failure, *, sent: bool) -> None:
        super().__init__(failure.value)
        self.failure = failure
        self.sent = sent


def connect_failure(error: Exception, *, tls: bool) -> Failure:
    """What a failed connection attempt means: name lookup, TCP and, with `tls`, the handshake."""
    if isinstance(error, ssl.SSLError):
        return Failure.TLS
    if isinstance(error, TimeoutError):  # ours, or the kernel's ETIMEDOUT
        return Failure.CONNECT_TIMEOUT
    if isinstance(error, ConnectionRefusedError) or _refused_everywhere(error):
        return Failure.REFUSED
    if isinstance(error, ConnectionError):  # the peer hung up on the handshake
        return Failure.TLS if tls else Failure.RESET
    return Failure.UNREACHABLE  # gaierror, no route, a name that cannot be encoded


def end_of(error: Exception) -> Failure:
    """What the error means that a standing connection was lost with."""
    return Failure.VANISHED if isinstance(error, OSError) and error.errno in _VANISHED else Failure.RESET


def _refused_everywhere(error: Exception) -> bool:
    """One OSError without errno that lists the texts of all addresses tried: asyncio (3.11), for a name with several."""
    text = str(error)
    return isinstance(error, OSError) and error.errno is None and 0 < text.count("[Errno") == text.count(_REFUSED)
