"""Who may use the admin API; asked anew for every request, so that a reload holds at once.

- `admin.open`    everybody, without credentials: what eidex does
- `admin.token`   whoever presents it as a bearer token
- neither         callers of this machine: a loopback address, nothing that a proxy adds, and no page of another site (a browser
                  on this machine can be made to call 127.0.0.1: its Host or Origin tells)

It must not know: what the admin API does.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from fastapi import Request

from autohedge.core.problems import Forbidden, Unauthorized
from autohedge.doors.access import ASKING, accepted
from autohedge.settings.people import Admin

RELAYED = ("x-forwarded-for", "forwarded", "x-real-ip")  # a proxy stood between: the address is the proxy's


def admit(request: Request, admin: Admin) -> None:
    """Raises Unauthorized for a missing or wrong token, Forbidden for a caller from elsewhere where there is none."""
    if admin.open:
        return
    if admin.token is not None:
        value = request.headers.get("authorization")
        if value is None:
            message = "the admin token is missing: expected 'Authorization: Bearer <token>'"
            raise Unauthorized(message, headers=ASKING)
        if not accepted(value.encode("latin-1"), admin.token):
            raise Unauthorized("the admin token is not accepted", headers=ASKING)
        return
    if not _is_here(request):
        raise Forbidden("without admin.token the admin API answers direct callers of this machine only")


def _is_here(request: Request) -> bool:
    headers, client = request.headers, request.client
    host = headers.get("host", "")
    origin = headers.get("origin")
    return (
        client is not None
        and _is_loopback(client.host)
        and not any(name in headers for name in RELAYED)
        and _is_loopback(_name_in(f"//{host}"))
        and (origin is None or origin.partition("://")[2] == host)
    )


def _name_in(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
