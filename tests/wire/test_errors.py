"""Foreign exceptions become one of our failures, in one place."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from autohedge.core.types import Failure
from autohedge.wire.errors import WireError, connect_failure, end_of

_BOTH_REFUSED = "Multiple exceptions: [Errno 111] Connect call failed ('::1', 9, 0, 0), [Errno 111] Connect call failed ('127.0.0.1', 9)"
_MIXED = "Multiple exceptions: [Errno 113] Connect call failed ('::1', 9, 0, 0), [Errno 111] Connect call failed ('127.0.0.1', 9)"


@pytest.mark.parametrize(
    ("error", "tls", "failure"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), False, Failure.REFUSED),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), True, Failure.REFUSED),
        (OSError(_BOTH_REFUSED), False, Failure.REFUSED),
        (OSError(_MIXED), False, Failure.UNREACHABLE),
        (OSError("odd"), False, Failure.UNREACHABLE),
        (socket.gaierror(socket.EAI_NONAME, "x"), False, Failure.UNREACHABLE),
        (OSError(errno.EHOSTUNREACH, "x"), False, Failure.UNREACHABLE),
        (UnicodeError("label too long"), False, Failure.UNREACHABLE),
        (TimeoutError(), False, Failure.CONNECT_TIMEOUT),
        (TimeoutError(errno.ETIMEDOUT, "x"), True, Failure.CONNECT_TIMEOUT),
        (ssl.SSLError(1, "x"), True, Failure.TLS),
        (ssl.SSLCertVerificationError(1, "x"), True, Failure.TLS),
        (ConnectionResetError(), True, Failure.TLS),
        (ConnectionAbortedError(), True, Failure.TLS),
        (ConnectionResetError(), False, Failure.RESET),
    ],
)
def test_each_foreign_exception_has_its_failure(error: Exception, tls: bool, failure: Failure) -> None:
    assert connect_failure(error, tls=tls) is failure


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (TimeoutError(errno.ETIMEDOUT, "x"), Failure.VANISHED),
        (OSError(errno.EHOSTUNREACH, "x"), Failure.VANISHED),  # nobody answered for its address meanwhile
        (OSError(errno.ENETUNREACH, "x"), Failure.VANISHED),  # our own cable
        (ConnectionResetError(errno.ECONNRESET, "x"), Failure.RESET),
        (BrokenPipeError(errno.EPIPE, "x"), Failure.RESET),
        (TimeoutError("SSL shutdown timed out"), Failure.RESET),
        (ssl.SSLError(1, "x"), Failure.RESET),
    ],
)
def test_what_a_standing_connection_was_lost_with(error: Exception, failure: Failure) -> None:
    assert end_of(error) is failure


def test_the_text_is_the_failure_and_nothing_else() -> None:
    error = WireError(Failure.REFUSED, sent=False)
    assert str(error) == "connection refused"
    assert (error.failure, error.sent) == (Failure.REFUSED, False)
