"""Addresses: table B, B7 and B9 to B13, URLs with their base, endpoints, where state lives, and what is never repeated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.types import Address
from autohedge.settings.addresses import (
    Sentinels,
    masked,
    parse_address,
    parse_endpoint,
    parse_listen,
    parse_redis,
    parse_sentinels,
    parse_sqlite,
    parse_state,
    redis_target,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("vllm-host", Address("vllm-host", 8000)),  # B7
        ("h:8001", Address("h", 8001)),
        (" h:1 ", Address("h", 1)),  # B13
        ("Stack_vLLM.1:8000", Address("stack_vllm.1", 8000)),
        ("10.0.0.3:65535", Address("10.0.0.3", 65535)),
        ("[::1]:8000", Address("::1", 8000)),  # B12
        ("[0:0:0:0:0:0:0:1]", Address("::1", 8000)),
        ("http://h:8000", Address("h", 8000)),  # B11
        ("HTTPS://h", Address("h", 443, tls=True)),
        ("http://h", Address("h", 80)),
        ("https://[::1]:8443/x", Address("::1", 8443, tls=True, prefix="/x")),
        ("http://h:8000/v1/", Address("h", 8000)),
        ("http://h:8000/v1", Address("h", 8000)),
        ("http://h:8000/gpu1/v1", Address("h", 8000, prefix="/gpu1")),
        ("h:8000/gpu1/", Address("h", 8000, prefix="/gpu1")),
        ("http://h/v1beta", Address("h", 80, prefix="/v1beta")),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    """A bare host gets 8000, a URL its scheme's port; /v1 goes, a base before it stays."""
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("h:abc", 'invalid port "abc" in "h:abc"'),  # B9
        ("h:", 'the port is missing after ":" in "h:"'),
        ("h:0", 'invalid port "0" in "h:0": it must be 1 to 65535'),  # B10
        ("h:-1", 'invalid port "-1" in "h:-1": it must be 1 to 65535'),
        ("h:70000", 'invalid port "70000" in "h:70000": it must be 1 to 65535'),
        ("h:\u0661", "invalid port"),
        ("h:80 80", "invalid port"),
        ("ftp://h", 'unknown scheme "ftp"; write http:// or https://'),  # B11
        ("http:/h", "the port"),
        ("::1", 'IPv6 addresses need brackets: "[::1]:8000"'),  # B12
        ("::1:8000", "IPv6 addresses need brackets"),
        ("h:1:2", '"h:1:2" has more than one port'),
        ("[::1", 'needs the form "[address]:port"'),
        ("[::1]8000", 'needs the form "[address]:port"'),
        ("[h]:1", '"h" in "[h]:1" is not an IPv6 address'),
        ("[fe80::1%eth0]:1", "is not an IPv6 address"),
        (":8000", '":8000" has no host'),  # B13
        ("", '"" has no host'),
        ("http://", "has no host"),
        ("a b:1", "is not a host name"),
        ("-h", "is not a host name"),
        ("h..x", "is not a host name"),
        ("münchen", "is not a host name"),
        ("10.0.0.300", '"10.0.0.300" in "10.0.0.300" is not an IPv4 address'),
        ("8000", "is not an IPv4 address"),
        ("http://h/v1/chat/completions", "the URL of one API"),
        ("http://h/v1/v1", "the URL of one API"),
        ("http://h/a?x=1", '"http://h/a" goes on with "?"'),
        ("http://h#x", "goes on with"),
        ("http://h/a/../b", "is not a base path"),
        ("http://h//a", "is not a base path"),
    ],
)
def test_what_is_no_address_is_told_exactly(text: str, reason: str) -> None:
    """Never host "http://h", never port 70000 (AIBrix takes both)."""
    with pytest.raises(ValueError, match=r".") as caught:
        parse_address(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize("text", ["u:pw@h", "http://u:pw@h:1", "http://:pw@h", "http://u:p/w@h", "http://u:p?w@h"])
@pytest.mark.parametrize("read", [parse_address, parse_endpoint])
def test_credentials_in_an_address_are_refused_and_not_repeated(text: str, read: Callable[[str], object]) -> None:
    """They belong into api_key; the message must not carry them into a log."""
    with pytest.raises(ValueError, match=r".") as caught:
        read(text)
    assert "pw" not in str(caught.value)
    assert "p/w" not in str(caught.value)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    """And an address that was read prints to a URL that reads the same."""
    try:
        address = parse_address(text)
    except ValueError:
        return
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("0.0.0.0:8000", ("0.0.0.0", 8000)),
        (":8000", ("0.0.0.0", 8000)),
        ("[::]:80", ("::", 80)),
        ("localhost:0", ("localhost", 0)),
        (" 127.0.0.1:1 ", ("127.0.0.1", 1)),
    ],
)
def test_a_listen_address_is_read(text: str, bound: tuple[str, int]) -> None:
    """host:port, :port, [v6]:port; port 0 takes a free one."""
    assert parse_listen(text) == bound


@pytest.mark.parametrize(
    "text", ["", "8000", "h", "h:", "h:x", "h:65536", "::1:80", "[::1]", "http://h:80", "h:80/x", "h:-1"]
)
def test_what_cannot_be_listened_on_is_refused(text: str) -> None:
    """One sentence each; a URL is not an address to bind."""
    with pytest.raises(ValueError, match='"'):
        parse_listen(text)


def test_an_endpoint_keeps_its_query() -> None:
    """The article's Azure endpoint."""
    url = "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2023-05-15"
    assert parse_endpoint(f" {url} ") == url


@pytest.mark.parametrize(
    "text", ["x.openai.azure.com/openai", "https://", "https://[x", "https://h/a b", "https://h:99999/", "https://h/#x"]
)
def test_what_is_no_endpoint_is_refused(text: str) -> None:
    """A full URL with a scheme, or an error."""
    with pytest.raises(ValueError, match=r"."):
        parse_endpoint(text)


@pytest.mark.parametrize(
    "text",
    [
        "redis://redis:6379/0",
        "rediss://:pw@h",
        "redis://u:pw@[::1]:1/2",
        "unix:///run/redis.sock",
        "redis+sentinel://u:pw@a:26379,b:26379/main/0",
        "rediss+sentinel://a/main",
    ],
)
def test_a_redis_url_is_kept(text: str) -> None:
    """The article's form, TLS, credentials, sockets and Sentinel."""
    assert parse_redis(f" {text}") == parse_state(f" {text}") == text


@pytest.mark.parametrize(
    "text",
    [
        "redis",
        "http://u:pw@h",
        "redis://",
        "redis://u:pw@h:x",
        "redis://u:pw@h/a",
        "redis://u:p/pw@h",
        "unix://",
        "redis://[pw",
        "redis+sentinel://",
        "redis+sentinel://u:pw@h",
        "redis+sentinel://u:pw@h/",
        "redis+sentinel://u:pw@h:x/main",
        "redis+sentinel://u:pw@h,/main",
        "redis+sentinel://u:pw@h/main/x",
        "redis+sentinel://u:pw@h/main/0/1",
        "redis+sentinel://u:pw@h/main?a=pw",
        "redis+sentinel://u:p/pw@h/main",
        "redis+sentinel://u:p?pw@h/main",
        "sqlite://u:pw@h",
        "sqlite://u:pw@h/x",
    ],
)
def test_what_is_no_place_for_state_is_refused_without_its_password(text: str) -> None:
    """Same rule as for addresses."""
    with pytest.raises(ValueError, match=r".") as caught:
        parse_state(text)
    assert "pw" not in str(caught.value)


def test_sentinels_are_read() -> None:
    """Ports and database may be left out; the login is percent-encoded and does not print."""
    found = parse_sentinels("redis+sentinel://us%40er:p%2Fw@A,[::1]:5/my%20main")
    assert found == Sentinels((("a", 26379), ("::1", 5)), "my main", 0, tls=False, user="us@er", password="p/w")
    assert "p/w" not in repr(found)
    tls = parse_sentinels("rediss+sentinel://:pw@h/main/3")
    assert (tls.hosts, tls.tls, tls.db, tls.user, tls.password) == ((("h", 26379),), True, 3, "", "pw")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("sqlite:////data/state.db", "/data/state.db"),
        (" sqlite://///data/a%20b.db ", "/data/a b.db"),
        ("sqlite:////data/a@b.db", "/data/a@b.db"),
    ],
)
def test_a_file_for_state_is_read(text: str, path: str) -> None:
    """Four slashes: the path is absolute, or it would depend on who starts the process."""
    assert parse_sqlite(text) == path
    assert parse_state(text) == text.strip()


@pytest.mark.parametrize(
    "text",
    [
        "sqlite:",
        "sqlite://",
        "sqlite:///state.db",
        "sqlite:////",
        "sqlite:////data/",
        "sqlite:////a?b=c",
        "sqlite:////a%00b",
    ],
)
def test_what_is_no_file_for_state_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"sqlite:////data/state\.db"):
        parse_state(text)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("redis://h", "redis://H:6379/0", True),
        ("redis://u:pw@h/", "redis://h", True),
        ("redis://h/1", "redis://h/0", False),
        ("redis://h:1", "redis://h:2", False),
        ("rediss://h", "redis://h", False),
        ("unix:///a", "unix:///a", True),
        ("unix:///a", "unix:///b", False),
        ("sqlite:////a/x.db", "sqlite:////a/./x.db", True),
        ("sqlite:////a/x.db", "sqlite:////a/y.db", False),
        ("sqlite:////a/x.db", "redis://h", False),
        ("redis+sentinel://a,b:26379/main", "redis+sentinel://u:pw@b,a/main/0", True),
        ("redis+sentinel://a/main", "redis+sentinel://a/other", False),
        ("redis+sentinel://a/main", "rediss+sentinel://a/main", False),
        ("redis+sentinel://a/main", "redis://a", False),
    ],
)
def test_two_redis_urls_with_one_target_are_the_same(one: str, other: str, same: bool) -> None:
    """Default port and database, and whatever the credentials are."""
    assert (redis_target(one) == redis_target(other)) is same


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis://u:pw@h:1/0", "redis://***@h:1/0"),
        ("https://h/a?api-version=1&api-key=k&sig=", "https://h/a?api-version=1&api-key=***&sig=***"),
        ("https://h/a", "https://h/a"),
        ("redis://u:p/?#pw@h", "redis://***@h"),
        ("redis+sentinel://u:pw@a:1,b:2/main/0", "redis+sentinel://***@a:1,b:2/main/0"),
        ("sqlite:////data/state.db", "sqlite:////data/state.db"),
        ("u:pw@h", "***"),
        ("h:8000", "h:8000"),
    ],
)
def test_a_url_is_shown_without_credentials(url: str, text: str) -> None:
    """User, password and query values other than Azure's api-version are hidden."""
    assert masked(url) == text
