"""Texts that say where something listens: host:port, URLs, Redis, and the file that takes its place.

What it decides: which of them are addresses, and the exact sentence for one that is not (AIBrix takes "http://h" for a
host and port 70000 for a port; facts, table B: B7, B9 to B13).

Rules
- A bare host gets the default port of its provider; a URL keeps its scheme and the scheme's own port.
- Only the base counts: a trailing "/v1" goes, what stands before it stays as a prefix.
- Credentials in an address are refused, and no message repeats them.
- Bare IPv6 is refused, because "::1:8000" can be read in two ways.

It must not know: YAML, or what is sent to the address.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from autohedge.core.types import Address

DEFAULT_PORT = 8000

_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_PATH = re.compile(r"(/[A-Za-z0-9._~%!$&'()*+,;=:-]+)*")
_SCHEMES = {"http": 80, "https": 443}
_SENTINEL = {"redis+sentinel", "rediss+sentinel"}
_SQLITE = "sqlite:///"
_OPEN_QUERY = {"api-version"}  # the only query value of an endpoint that is never a credential


def parse_address(text: str, default_port: int = DEFAULT_PORT, *, tls: bool = False) -> Address:
    """Where a replica listens, from "h", "h:8000", "[::1]:8000" or an http(s) URL. Raises ValueError.

    `default_port` and `tls` are for a text without a scheme.
    """
    text = text.strip()
    scheme, rest = _scheme(text)
    authority, slash, path = rest.partition("/")
    _no_credentials(text)
    if "?" in rest or "#" in rest:
        raise ValueError(
            f'"{text.split("?")[0].split("#")[0]}" goes on with "?" or "#"; an address is scheme, host, port and base path only'
        )
    host, port = split_port(authority, text)
    if scheme:
        tls, default_port = scheme == "https", _SCHEMES[scheme]
    return Address(host, default_port if port is None else port, tls, _prefix(slash + path, text))


def _scheme(text: str) -> tuple[str, str]:
    scheme, sign, rest = text.partition("://")
    if not sign:
        return "", text
    if scheme.lower() not in _SCHEMES:
        raise ValueError(f'unknown scheme "{scheme}"; write http:// or https://')
    return scheme.lower(), rest


def _no_credentials(text: str) -> None:
    if "@" in text:
        raise ValueError("credentials inside an address are refused; use api_key")


def split_port(authority: str, text: str) -> tuple[str, int | None]:
    """Host (lower case, without brackets) and port of "h", "h:1", "[v6]" or "[v6]:1". `text` is quoted in the ValueError."""
    host, colon, port = authority.partition(":")
    if authority.startswith("["):
        inside, bracket, after = authority[1:].partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise ValueError(f'"{text}" needs the form "[address]:port"')
        colon, port = after[:1], after[1:]
        host = _ipv6(inside, text)
    elif authority.count(":") > 1:
        raise ValueError(_colons(authority, text))
    else:
        host = _host(host, text)
    return host, _port(port, text) if colon else None


def _colons(authority: str, text: str) -> str:
    try:
        IPv6Address(authority)
    except ValueError:
        return f'"{text}" has more than one port'
    return f'IPv6 addresses need brackets: "[{authority}]:{DEFAULT_PORT}"'


def _ipv6(inside: str, text: str) -> str:
    try:
        return IPv6Address(inside.replace("%", "x")).compressed  # a zone means nothing on another machine
    except ValueError:
        raise ValueError(f'"{inside}" in "{text}" is not an IPv6 address') from None


def _host(host: str, text: str) -> str:
    if not host:
        raise ValueError(f'"{text}" has no host')
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.removesuffix(".").split(".")):
        raise ValueError(f'"{host}" in "{text}" is not a host name')
    if re.fullmatch(r"[0-9.]+", host):
        try:
            IPv4Address(host)
        except ValueError:
            raise ValueError(f'"{host}" in "{text}" is not an IPv4 address') from None
    return host.lower()


def _port(port: str, text: str, lowest: int = 1) -> int:
    if not port:
        raise ValueError(f'the port is missing after ":" in "{text}"')
    if re.fullmatch(r"-?[0-9]+", port) is None:
        raise ValueError(f'invalid port "{port}" in "{text}"')
    if len(port) > 5 or not lowest <= int(port) <= 65535:
        raise ValueError(f'invalid port "{port}" in "{text}": it must be {lowest} to 65535')
    return int(port)


def _prefix(path: str, text: str) -> str:
    path = path.rstrip("/")
    path = path.removesuffix("/v1").rstrip("/")
    if "/v1/" in f"{path}/":
        raise ValueError(f'"{text}" is the URL of one API; give only what stands before /v1')
    if _PATH.fullmatch(path) is None or {".", ".."} & set(path.split("/")):
        raise ValueError(f'"{path}" in "{text}" is not a base path')
    return path


def parse_listen(text: str) -> tuple[str, int]:
    """Host and port to bind, from "host:port", ":port" (every IPv4 address) or "[v6]:port"; port 0 takes a free one."""
    head, colon, port = text.strip().rpartition(":")
    if not colon or (head.count(":") and not head.startswith("[")):
        raise ValueError(f'"{text}" needs the form host:port, :port or [v6]:port')
    host = split_port(head, text)[0] if head else "0.0.0.0"  # noqa: S104 - a proxy at the edge listens everywhere
    return host, _port(port, text, lowest=0)


def parse_endpoint(text: str) -> str:
    """The full URL of one API of an external provider, as given. Raises ValueError; a query is allowed (Azure)."""
    text = text.strip()
    _no_credentials(text.partition("?")[0])
    parts = _split(text)
    if parts.scheme not in _SCHEMES:
        raise ValueError("must be a URL with http:// or https://")
    split_port(parts.netloc, f"{parts.scheme}://{parts.netloc}")
    if parts.fragment or not text.isprintable() or " " in text:
        raise ValueError(f'"{parts.scheme}://{parts.netloc}{parts.path}" must not have blanks or a "#"')
    return text


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # its own text would repeat the credentials
        raise ValueError("is not a URL") from None


@dataclass(frozen=True, slots=True)
class Sentinels:
    """Redis behind Sentinel: whom to ask, and for which service. The credentials are those of Redis itself."""

    hosts: tuple[tuple[str, int], ...]
    service: str
    db: int
    tls: bool
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)


def parse_state(text: str) -> str:
    """Where state lives, as given: a Redis URL or sqlite:////path. Raises ValueError without any part of the credentials."""
    text = text.strip()
    if text.startswith("sqlite:"):
        parse_sqlite(text)
        return text
    return parse_redis(text)


def parse_sqlite(text: str) -> str:
    """The absolute path in sqlite:////path/state.db. Raises ValueError."""
    text = text.strip()
    path = unquote(text.removeprefix(_SQLITE))
    if not text.startswith(f"{_SQLITE}/") or path.endswith("/") or {"?", "#", "\0"} & set(path):
        shown = masked(text)
        raise ValueError(
            f'must be sqlite:// and the absolute path of a file, like sqlite:////data/state.db, not "{shown}"'
        )
    return "/" + path.lstrip("/")


def parse_redis(text: str) -> str:
    """A Redis URL as given: redis://, rediss://, unix:// or, behind Sentinel, redis+sentinel://host:port,host:port/service/db.

    Raises ValueError without any part of the credentials.
    """
    text = text.strip()
    scheme = text.partition("://")[0]
    if scheme in _SENTINEL:
        parse_sentinels(text)
        return text
    parts = _split(text)
    shown = masked(text)
    if "@" in text and "@" not in parts.netloc:
        raise ValueError(_escapes(shown))
    if parts.scheme not in {"redis", "rediss", "unix"}:
        raise ValueError(
            f'must be a URL with redis://, rediss://, redis+sentinel://, unix:// or sqlite://, not "{shown}"'
        )
    if parts.scheme == "unix":
        if not parts.path.strip("/"):
            raise ValueError(f'"{shown}" has no path')
    else:
        split_port(parts.netloc.rpartition("@")[2], shown)
        if not re.fullmatch(r"(/[0-9]*)?", parts.path):
            raise ValueError(f'the database in "{shown}" must be a number')
    return text


def _escapes(shown: str) -> str:
    return f'"/", "?" and "#" in a user or password are written as %2F, %3F and %23: "{shown}"'


def parse_sentinels(text: str) -> Sentinels:
    """What redis+sentinel://user:password@host:26379,host:26379/service/db names; rediss+sentinel:// is TLS to all of them.

    The database may be left out (0), and the ports (26379). Raises ValueError without any part of the credentials.
    """
    scheme, _, rest = text.strip().partition("://")
    shown = masked(text.strip())
    authority, _, path = rest.partition("/")
    if "@" in path or "?" in rest or "#" in rest:
        raise ValueError(_escapes(shown) if "@" in rest else f'"{shown}" must not have "?" or "#"')
    login, _, hosts = authority.rpartition("@")
    places = [split_port(host, shown) for host in hosts.split(",")]
    service, _, db = path.partition("/")
    if not service:
        raise ValueError(f'"{shown}" names no service: redis+sentinel://host:port,host:port/service')
    if not re.fullmatch(r"[0-9]*", db):
        raise ValueError(f'the database in "{shown}" must be a number')
    user, _, password = login.partition(":")
    return Sentinels(
        tuple((host, 26379 if port is None else port) for host, port in places),
        unquote(service),
        int(db or 0),
        scheme == "rediss+sentinel",
        unquote(user),
        unquote(password),
    )


def redis_target(url: str) -> tuple[str, ...]:
    """What a URL of `parse_state` points at, without credentials: two URLs with the same target mean the same store."""
    url = url.strip()
    scheme = url.partition("://")[0]
    if scheme == "sqlite":
        return scheme, posixpath.normpath(parse_sqlite(url))
    if scheme in _SENTINEL:
        found = parse_sentinels(url)
        return scheme, *sorted(f"{host}:{port}" for host, port in found.hosts), found.service, str(found.db)
    parts = _split(url)
    if parts.scheme == "unix":
        return "unix", parts.path
    host, port = split_port(parts.netloc.rpartition("@")[2], "")
    return parts.scheme, host, str(6379 if port is None else port), parts.path.strip("/") or "0"


def masked(url: str) -> str:
    """A URL that can be shown: no user, no password, and no query value but Azure's api-version."""
    head, sign, rest = url.partition("://")
    if not sign:
        return "***" if "@" in url else url
    user, at, rest = rest.rpartition("@")
    place, question, query = (f"***@{rest}" if user or at else rest).partition("?")
    pairs = [(key, value if key in _OPEN_QUERY else "***") for key, value in parse_qsl(query, keep_blank_values=True)]
    return f"{head}://{place}{question}{urlencode(pairs, safe='*')}"
