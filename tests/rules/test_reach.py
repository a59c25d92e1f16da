"""Where a registered worker may be: the guard against requests into places that only AutoHedge can reach."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from autohedge.rules.reach import address_in, disguised, heard, itself, may_connect, refused


@pytest.mark.parametrize(
    "text",
    [
        "169.254.169.254",
        "169.254.0.1",
        "0.0.0.0",
        "0.1.2.3",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fe80::1",
        "febf::1",
        "::",
        "ff02::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "::ffff:169.254.169.254",
        "::ffff:0.0.0.0",
        "::169.254.169.254",
        "2002:a9fe:a9fe::1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "64:ff9b:1:fffe::a9fe:a9fe",
        "::ffff:0:169.254.169.254",
        "2001:0:102:304:0:0:5601:5601",
        "fd12:3456::5efe:a9fe:a9fe",
        "fd12:3456::200:5efe:a9fe:a9fe",
    ],
)
def test_never_allowed_whatever_the_configuration_says(text: str) -> None:
    """Link-local, metadata, multicast, reserved; also as IPv4 inside of IPv6."""
    everything = (ip_network("0.0.0.0/0"), ip_network("::/0"))
    assert "not allowed" in refused([ip_address(text)])
    assert "not allowed" in refused([ip_address(text)], everything)


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.1",
        "127.0.0.1",
        "192.168.1.2",
        "172.17.0.5",
        "::1",
        "fd00::5",
        "8.8.8.8",
        "2001:db8::1",
        "64:ff9b:1::a00:1",
    ],
)
def test_allowed_where_no_network_is_named(text: str) -> None:
    assert refused([ip_address(text)]) == ""


def test_with_networks_every_address_of_a_host_must_be_in_one() -> None:
    allowed = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    inside, mapped, outside = ip_address("10.1.2.3"), ip_address("::ffff:10.1.2.3"), ip_address("192.168.0.1")
    assert refused([inside, mapped, ip_address("fd00::7")], allowed) == ""
    assert "workers.allow" in refused([outside], allowed)
    assert "workers.allow" in refused([inside, outside], allowed)
    assert "not allowed" in refused([inside, ip_address("169.254.169.254")])


@pytest.mark.parametrize(
    "host", ["0x7f.1", "0x7f000001", "2130706433", "017700000001", "127.1", "a.0x1", "1.2.3.4.5", "0x"]
)
def test_a_number_that_looks_like_a_name_is_refused(host: str) -> None:
    """Resolvers read these as addresses (inet_aton)."""
    assert disguised(host)


@pytest.mark.parametrize("host", ["worker1", "10.0.0.1", "::1", "0x7f.example", "worker-0", "w0x1"])
def test_names_and_plain_addresses_are_not(host: str) -> None:
    assert not disguised(host)


def test_what_is_an_address() -> None:
    assert address_in("10.0.0.1") == ip_address("10.0.0.1")
    assert address_in("worker1") is None


@pytest.mark.parametrize(
    ("host", "port", "bind", "is_itself"),
    [
        ("127.0.0.1", 8080, ("0.0.0.0", 8080), True),
        ("::ffff:127.0.0.1", 8080, ("0.0.0.0", 8080), True),
        ("localhost", 8080, ("0.0.0.0", 8080), True),
        ("localhost.", 8080, ("0.0.0.0", 8080), True),
        ("10.0.0.5", 8080, ("10.0.0.5", 8080), True),
        ("127.0.0.1", 8000, ("0.0.0.0", 8080), False),
        ("10.0.0.6", 8080, ("10.0.0.5", 8080), False),
        ("worker1", 8080, ("0.0.0.0", 8080), False),
    ],
)
def test_autohedge_is_no_worker_of_its_own(host: str, port: int, bind: tuple[str, int], is_itself: bool) -> None:
    assert itself(host, port, bind) is is_itself


@pytest.mark.parametrize(
    ("found", "bound", "is_heard"),
    [
        ("10.0.0.5", "0.0.0.0", True),
        ("10.0.0.5", "::", True),
        ("10.0.0.5", "", True),
        ("::ffff:10.0.0.5", "0.0.0.0", True),
        ("fd00::5", "::", True),
        ("::1", "0.0.0.0", True),
        ("10.0.0.6", "0.0.0.0", False),
        ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.5", "127.0.0.1", False),  # somebody else has that port there
        ("10.0.0.5", "localhost", False),
    ],
)
def test_where_it_is_heard(found: str, bound: str, is_heard: bool) -> None:
    """All addresses of the machine where it listens everywhere, else the one."""
    ours = {ip_address("10.0.0.5"), ip_address("fd00::5")}
    assert heard([ip_address(found)], bound, ours.__contains__) is is_heard
    assert not heard([], bound, ours.__contains__)


def test_what_is_connected_to_is_judged_again() -> None:
    """A name may lead elsewhere than when it was registered."""
    assert may_connect("10.0.0.1")
    assert may_connect("fd00::1%eth0")
    assert not may_connect("169.254.169.254")
    assert not may_connect("")
    assert not may_connect("8.8.8.8", (ip_network("10.0.0.0/8"),))
