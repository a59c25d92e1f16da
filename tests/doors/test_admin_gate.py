"""Who may use the admin API: a token, this machine, or everybody where somebody said so."""

from __future__ import annotations

import hashlib

import pytest

from autohedge.core.problems import Forbidden
from autohedge.doors.admin_gate import admit
from autohedge.settings.people import Admin
from tests.doors.office import Office

PATH = "/admin/replicas"
DIGEST = hashlib.sha256(b"adm1n").hexdigest()


def status(office: Office, client: str = "127.0.0.1", base: str = "http://127.0.0.1:8000", **headers: str) -> int:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return office.ask("GET", PATH, headers=sent, client=(client, 5), base=base).status_code


@pytest.mark.parametrize("client", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize(
    "base", ["http://127.0.0.1:8000", "http://localhost:8000", "http://[::1]:8000", "http://LOCALHOST"]
)
def test_without_a_token_this_machine_may(client: str, base: str) -> None:
    assert status(Office(), client, base) == 200


@pytest.mark.parametrize("client", ["10.0.0.2", "172.17.0.1", "::2", "::ffff:10.0.0.1", "testclient", ""])
def test_without_a_token_nobody_else_may(client: str) -> None:
    """Docker's ingress and a bridge's gateway are somebody else."""
    answer = Office().ask("GET", PATH, client=(client, 5))
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    assert "admin.token" in answer.json()["error"]["message"]


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "x-real-ip"])
def test_a_proxy_on_this_machine_does_not_lend_its_address(header: str) -> None:
    assert status(Office(), **{header: "127.0.0.1"}) == 403


def test_a_page_of_another_site_does_not_get_in_through_a_browser_here() -> None:
    """Cross-site requests tell their Origin, a rebound name its Host; the page of AutoHedge itself may."""
    assert status(Office(), origin="https://evil.example") == 403
    assert status(Office(), origin="null") == 403
    assert status(Office(), base="http://evil.example:8000") == 403
    assert status(Office(), host="evil.example]") == 403
    assert status(Office(), origin="http://127.0.0.1:8000") == 200


@pytest.mark.parametrize("token", ["adm1n", f"sha256:{DIGEST}"])
def test_with_a_token_only_who_has_it_may(token: str) -> None:
    """From anywhere, through proxies too; and being here is not enough then."""
    office = Office(f"admin: {{token: '{token}'}}")
    assert status(office, "10.0.0.2", authorization="Bearer adm1n", x_forwarded_for="1.2.3.4") == 200
    assert status(office, authorization="bearer  adm1n") == 200
    assert (
        status(office) == status(office, authorization="Bearer wrong") == status(office, authorization="adm1n") == 401
    )
    answer = office.ask("GET", PATH)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["message"] == "the admin token is missing: expected 'Authorization: Bearer <token>'"


def test_open_lets_everybody_in() -> None:
    """Seed 000: eidex asks for no credentials."""
    assert status(Office("admin: {open: true, token: t}"), "10.0.0.2", x_forwarded_for="1.2.3.4") == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/admin/replicas"),
        ("POST", "/admin/replicas/pair@one:1/drain"),
        ("GET", "/admin/retired"),
        ("POST", "/admin/retired"),
        ("POST", "/admin/retired/pair/m/undo"),
        ("GET", "/admin/redirects"),
        ("GET", "/admin/sources"),
        ("GET", "/admin/config"),
        ("GET", "/admin/state"),
        ("POST", "/admin/reload"),
        ("POST", "/admin/explain"),
        ("POST", "/admin/explain/v1/chat/completions"),
    ],
)
def test_every_path_asks(method: str, path: str) -> None:
    """No way in beside the gate, and nothing is done before it was passed."""
    office = Office()
    assert office.ask(method, path, {"provider": "pair"}, client=("10.0.0.2", 5)).status_code == 403
    assert office.forced == []
    assert office.desk.tools.retirements.facts == ()


def test_a_reload_holds_at_once() -> None:
    """The settings are asked per request."""
    office = Office()
    assert status(office) == 200
    office.desk.tools.settings = Office("admin: {token: t}").desk.tools.settings
    assert status(office) == 401


def test_a_caller_without_an_address_is_not_here() -> None:
    """A unix socket, for instance."""
    request = type("Request", (), {"headers": {"host": "localhost"}, "client": None})()
    with pytest.raises(Forbidden):
        admit(request, Admin())
