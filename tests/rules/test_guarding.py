"""What docker-guard lets through: a list of whole paths, read only; every trick is simply none of them."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.rules.guarding import Refused, Subject, decide


@pytest.mark.parametrize("version", ["", "/v1.24", "/v1.41", "/v1.50"])
@pytest.mark.parametrize(
    ("path", "subject"),
    [
        ("/_ping", Subject.PING),
        ("/version", Subject.VERSION),
        ("/services", Subject.SERVICES),
        ("/tasks", Subject.TASKS),
        ("/nodes", Subject.NODES),
        ("/networks", Subject.NETWORKS),
        ("/networks/ax6c7av98cymlip7o9cykfevo", Subject.NETWORK),
        ("/networks/autohedge-net", Subject.NETWORK),
        ("/events", Subject.EVENTS),
    ],
)
def test_what_discovery_asks_passes(version: str, path: str, subject: Subject) -> None:
    """facts swarm 2b: services, tasks, nodes, networks, events, ping and version suffice."""
    asked = decide("GET", version + path)
    assert (asked.subject, asked.target) == (subject, version + path)


@pytest.mark.parametrize(
    "path",
    [
        "", "/", "*", "/info", "/containers/json", "/secrets", "/configs", "/swarm", "/swarm/unlockkey", "/images/json",
        "/plugins", "/system/df", "/volumes", "/auth", "/build", "/exec/x/json", "/v1.41/info", "/v1.41/containers/json",
        "/services/abc", "/services/abc/logs", "/v1.41/services/abc/logs", "/tasks/abc", "/tasks/abc/logs", "/nodes/abc",
        "/services/", "/services//", "//services", "/./services", "/services/../info", "/v1.41/../info",
        "/networks/../info", "/networks/..", "/networks/.", "/networks/", "/networks/a/b", "/networks/a%2f..%2fb",
        "/networks/%2e%2e", "/services%2e", "/%73ervices", "/services%00", "/services;x=1", "/services#x", "/services?x",
        "/SERVICES", "/Services", "/services ", " /services", "/services\n", "/services\t", "/services\r\nHost: x",
        "http://docker/services", "http://docker/info", "https://x/services", "docker:2375", "/v1/services", "/v2.0/services",
        "/v1./services", "/v1.4a/services", "/v1.41services", "/v1.41/v1.41/services", "/v1.1234/services", "/ｓervices",
        "/networks/" + "a" * 129, "/services\\..\\info", "/events/x", "/_ping/..",
    ],
)  # fmt: skip
def test_everything_else_does_not(path: str) -> None:
    """No /services/{id}/logs, which docker-socket-proxy lets through; no path that another reader could read otherwise."""
    with pytest.raises(Refused):
        decide("GET", path)


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "PATCH", "CONNECT", "OPTIONS", "TRACE", "get", "", "GET ", "PRI"]
)
@pytest.mark.parametrize("path", ["/services", "/services/create", "/_ping", "/networks/a", "docker:2375"])
def test_nothing_is_written(method: str, path: str) -> None:
    with pytest.raises(Refused):
        decide(method, path)


def test_a_connection_cannot_be_taken_over() -> None:
    """Upgrade is how attach, exec and BuildKit get a raw connection."""
    with pytest.raises(Refused, match="protocol"):
        decide("GET", "/services", upgrade=True)
    with pytest.raises(Refused, match="body"):
        decide("GET", "/services", body=True)


def test_a_head_is_answered_but_for_the_endless() -> None:
    """The docker CLI begins with HEAD /_ping."""
    assert decide("HEAD", "/_ping").method == "HEAD"
    with pytest.raises(Refused):
        decide("HEAD", "/events")


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/services", 'filters={"label":["autohedge.enable=true"]}&status=true'),
        ("/tasks", "filters=%7B%22desired-state%22%3A%5B%22running%22%5D%7D"),
        ("/networks", 'filters={"scope":["swarm"]}'),
        ("/networks/a", "verbose=true&scope=swarm"),
        ("/events", 'filters={"type":["service"]}&since=1700000000.123&until='),
    ],
)
def test_known_query_fields_pass_with_their_values(path: str, query: str) -> None:
    asked = urlsplit(decide("GET", path, query).target)
    assert asked.path == path
    assert parse_qs(asked.query, keep_blank_values=True) == parse_qs(query, keep_blank_values=True)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/services", "follow=true"), ("/_ping", "x=1"), ("/version", "x=1"), ("/tasks", "verbose=1"), ("/tasks", "filters"),
        ("/tasks", "filters=a&filters=b"), ("/tasks", "&"), ("/tasks", "filters=" + "x" * 5000), ("/events", "stream=1;x"),
        ("/networks", "&".join(f"filters{i}=1" for i in range(20))),
    ],
)  # fmt: skip
def test_other_query_fields_do_not(path: str, query: str) -> None:
    with pytest.raises(Refused):
        decide("GET", path, query)


def test_a_refusal_says_what_is_answered_and_is_short() -> None:
    with pytest.raises(Refused) as told:
        decide("GET", "/secrets/" + "\n" * 500)
    assert "/services, /tasks" in str(told.value)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 300


SPELLED = re.compile(
    r"(/v1\.\d{1,3})?/(_ping|version|services|tasks|nodes|networks|events|networks/[A-Za-z0-9][A-Za-z0-9_.-]*)(\?[^\s?#]*)?"
)


@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(
            st.sampled_from(
                ["/", "services", "..", "%2e", "v1.41", "networks", "a", "?", "//", "logs", "\n", "#", "%2F"]
            ),
            max_size=8,
        ).map("".join),
    ),
    st.text(max_size=40),
)
def test_what_passes_is_always_spelled_by_us(path: str, query: str) -> None:
    """Whatever comes, what reaches the engine has one of nine forms."""
    try:
        asked = decide("GET", path, query)
    except Refused:
        return
    assert SPELLED.fullmatch(asked.target, 0)
    assert ".." not in urlsplit(asked.target).path.split("/")
