"""Whom a TLS peer must be vouched for by: the certificate authorities of the system.

Rule: they are read once, when the first TLS address is used. That takes 20 ms and a megabyte, and an edge in front of plain
HTTP engines never needs them.

It must not know: who the peers are.
"""

from __future__ import annotations

import ssl
from functools import cache


@cache
def trusted() -> ssl.SSLContext:
    """The one context of the process."""
    return ssl.create_default_context()
