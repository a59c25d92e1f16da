"""Who may call, who may administer, who is told: what the sections take, and that nothing of a secret is shown."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from autohedge.core.types import Address, Secret
from autohedge.settings.effective import render
from autohedge.settings.load import ConfigErrors, Loaded, load_text
from autohedge.settings.model import Settings
from autohedge.settings.people import Mail, place_of
from autohedge.settings.schema import documented

DIGEST = "a" * 64
FULL = f"""\
auth:
  mode: services
  services:
    shop: {{token: '${{SHOP_TOKEN}}', rate: 5, burst: 10}}
    batch: {{token: 'sha256:{DIGEST}'}}
  verify_url: https://keys.example/verify?key=hidden1
admin: {{token: '${{file:/run/secrets/admin}}'}}
alerts:
  mail: {{host: smtp.example, tls: starttls, user: hedge, password: hidden2, sender: a@b.example, to: [c@d.example]}}
  webhook: {{url: https://hooks.example/services/hidden3, format: slack}}
  min_interval: 30s
"""


def read(text: str, env: dict[str, str] | None = None) -> Loaded:
    return load_text(text, "c.yaml", {"SHOP_TOKEN": "hidden4"} | (env or {}), lambda _path: "hidden5\n")


def test_the_defaults_let_work_what_worked_before() -> None:
    """No credentials, an admin API for this machine alone, nobody told; the figures are those of the task."""
    settings = Settings()
    assert (settings.auth.mode, settings.auth.tokens, settings.auth.verify_url) == ("off", (), None)
    assert settings.auth.services == {}
    assert (settings.admin.token, settings.admin.open) == (None, False)
    alerts = settings.alerts
    assert (alerts.mail.host, alerts.mail.tls, alerts.webhook.url, alerts.webhook.format) == ("", "none", None, "json")
    assert (alerts.min_interval, alerts.repeat, alerts.queue) == (60.0, 3600.0, 100)


def test_a_whole_file() -> None:
    """Tokens from variables and secret files, as an operator writes them."""
    settings = read(FULL).settings
    shop = settings.auth.services["shop"]
    assert (shop.token, shop.rate, shop.burst) == (Secret("hidden4"), 5.0, 10)
    assert settings.auth.services["batch"].token == Secret(f"sha256:{DIGEST}")
    assert settings.admin.token == Secret("hidden5")
    assert settings.alerts.mail.place == ("smtp.example", 587)
    assert settings.alerts.webhook.url == Secret("https://hooks.example/services/hidden3")


def test_nothing_secret_is_shown() -> None:
    """The effective configuration and the repr; Slack's URLs are credentials as a whole."""
    loaded = read(FULL)
    shown = render(loaded) + repr(loaded.settings)
    assert "hidden" not in shown
    assert DIGEST not in shown
    assert '    url: "***"' in render(loaded)


def test_from_the_environment() -> None:
    """Lists with commas; words in any case."""
    env = {
        "AUTOHEDGE_AUTH_MODE": "Bearer",
        "AUTOHEDGE_AUTH_TOKENS": "one, two",
        "AUTOHEDGE_ADMIN_TOKEN": "t",
        "AUTOHEDGE_ALERTS_MAIL_HOST": "h",
        "AUTOHEDGE_ALERTS_MAIL_SENDER": "a@b",
        "AUTOHEDGE_ALERTS_MAIL_TO": "c@d,e@f",
        "AUTOHEDGE_ALERTS_WEBHOOK_URL": "https://h/x",
    }
    settings = read("", env).settings
    assert settings.auth.tokens == (Secret("one"), Secret("two"))
    assert settings.alerts.mail.to == ("c@d", "e@f")
    assert settings.alerts.webhook.url == Secret("https://h/x")


@pytest.mark.parametrize(
    ("tls", "port", "place"), [("none", 0, 25), ("starttls", 0, 587), ("tls", 0, 465), ("tls", 1, 1)]
)
def test_the_port_follows_the_protection(tls: str, port: int, place: int) -> None:
    tree = {"host": "h", "sender": "a@b", "to": ["c@d"], "tls": tls, "port": port}
    assert Mail.model_validate(tree).place == ("h", place)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"auth": {"mode": "basic"}}, "must be one of off, bearer, services"),
        ({"auth": {"mode": "bearer"}}, "mode is bearer, but there are no tokens"),
        ({"auth": {"mode": "services"}}, "mode is services, but there are no services"),
        ({"auth": {"services": {"a": {}}}}, 'service "a" needs a token'),
        ({"auth": {"services": {" a": {"token": "t"}}}}, "without blanks around it"),
        ({"auth": {"services": {"\u00e4": {"token": "t"}}}}, "printable ASCII"),
        ({"auth": {"services": {"a": {"token": "sha256:abc"}}}}, "64 hex digits"),
        ({"auth": {"services": {"a": {"token": "t", "rate": -1}}}}, "greater than or equal to 0"),
        ({"auth": {"verify_url": "keys.example"}}, "must be a URL"),
        ({"auth": {"verify_url": "https://u:p@keys.example"}}, "credentials inside an address"),
        ({"admin": {"token": " "}}, "not blank"),
        ({"alerts": {"mail": {"host": "h"}}}, "a host needs sender and to"),
        ({"alerts": {"mail": {"host": "h:25"}}}, "a host alone"),
        ({"alerts": {"mail": {"host": "a b"}}}, "is not a host name"),
        ({"alerts": {"mail": {"port": 70_000}}}, "less than or equal to 65535"),
        ({"alerts": {"mail": {"user": "u"}}}, "user and password go together"),
        ({"alerts": {"mail": {"password": "p"}}}, "user and password go together"),
        ({"alerts": {"mail": {"tls": "ssl"}}}, "must be one of none, starttls, tls"),
        ({"alerts": {"mail": {"to": ["ops"]}}}, "must be one address"),
        ({"alerts": {"mail": {"to": ["a@b, c@d"]}}}, "must be one address"),
        ({"alerts": {"mail": {"sender": "a@b\r\nBcc: c@d"}}}, "must be one address"),
        ({"alerts": {"webhook": {"format": "xml"}}}, "must be one of json, slack"),
        ({"alerts": {"repeat": 0}}, "longer than 0"),
        ({"alerts": {"queue": 0}}, "greater than or equal to 1"),
    ],
)
def test_what_cannot_work_is_refused(tree: dict[str, Any], message: str) -> None:
    """One wrong value each."""
    with pytest.raises(ValidationError) as error:
        Settings.model_validate(tree)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "url", ["hooks.example/hidden", "ftp://h/hidden", "https://u:hidden@h/", "https://h/hidden x", "x"]
)
def test_a_wrong_webhook_is_refused_without_being_shown(url: str) -> None:
    """Its path may be the whole secret."""
    with pytest.raises(ConfigErrors) as error:
        read(f"alerts: {{webhook: {{url: '{url}'}}}}")
    assert "c.yaml:1: alerts.webhook.url: must be a URL" in str(error.value)
    assert "hidden" not in str(error.value)


def test_a_service_needs_no_token_where_somebody_else_judges() -> None:
    """verify_url alone may decide."""
    tree = {"mode": "services", "services": {"a": {}}, "verify_url": "https://keys.example/verify-key"}
    assert Settings.model_validate({"auth": tree}).auth.services["a"].token is None


def test_secrets_are_documented_as_secrets() -> None:
    types = {row.path: row.type for row in documented()}
    assert types["auth.tokens"] == "list of secret"
    assert {types[path] for path in ("admin.token", "alerts.webhook.url", "auth.services.<name>.token")} == {"secret"}


def test_where_a_url_is_asked() -> None:
    """The path stays whole, a "/v1" in it too."""
    assert place_of("https://h/v1/x?a=b") == (Address("h", 443, tls=True), "/v1/x?a=b")
    assert place_of("http://[::1]:81") == (Address("::1", 81), "/")
