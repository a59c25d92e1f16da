"""Settings of those who use AutoHedge and of those who look after it: who may call, who may administer, who is told.

Rules
- What lets somebody in, and what leads to somebody's inbox, is a secret: it never prints.
- A token is the secret itself, or "sha256:" and the hex digest of it, so that a file need not hold the secret.
- What cannot work is refused at once: bearer without tokens, a service that nothing could accept, mail without addresses.

It must not know: headers, SMTP, how anything is compared or sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, GetPydanticSchema, model_validator
from pydantic_core import core_schema

from autohedge.core.types import Address, Secret
from autohedge.settings.addresses import parse_address, parse_endpoint, split_port
from autohedge.settings.durations import Duration
from autohedge.settings.scalars import (
    AtLeastOne,
    Credential,
    Flag,
    Many,
    NotNegative,
    Number,
    PositiveDuration,
    one_of,
    told,
)
from autohedge.settings.section import Section

HASHED = "sha256:"
PORTS = {"none": 25, "starttls": 587, "tls": 465}

_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_MAILBOX = re.compile(r"[^@\s<>,;:\"\\]+@[^@\s<>,;:\"\\]+")


def _token(secret: Secret) -> Secret:
    text = secret.reveal()
    if text.startswith(HASHED) and not _DIGEST.fullmatch(text.removeprefix(HASHED)):
        raise ValueError('after "sha256:" there must be the 64 hex digits of the digest')
    return secret


def _service_name(text: str) -> str:
    if not text or not text.isascii() or not text.isprintable() or text != text.strip():
        raise ValueError(f"a service name is printable ASCII without blanks around it, unlike {told(text)}")
    return text


def _secret_url(value: object) -> Secret:
    """A URL whose path is a credential, as Slack's are: no message repeats any part of it."""
    text = value.reveal() if isinstance(value, Secret) else value
    try:
        return Secret(parse_endpoint(text if isinstance(text, str) else ""))
    except ValueError:
        raise ValueError("must be a URL with http:// or https://, without blanks, credentials or a #") from None


def _mailbox(text: str) -> str:
    if not (text.isprintable() and text.isascii() and _MAILBOX.fullmatch(text)):
        raise ValueError(f"{told(text)} must be one address such as ops@example.org")
    return text


def _host(text: str) -> str:
    host, port = split_port(text.strip(), text.strip()) if text.strip() else ("", None)
    if port is not None:
        raise ValueError(f"{told(text)} must be a host alone; the port has a key of its own")
    return host


def place_of(url: str) -> tuple[Address, str]:
    """Where a URL of these settings is asked, and its path with the query."""
    parts = urlsplit(url)
    return parse_address(f"{parts.scheme}://{parts.netloc}"), (parts.path or "/") + (
        f"?{parts.query}" if parts.query else ""
    )


Token = Annotated[Credential, AfterValidator(_token)]
ServiceName = Annotated[str, AfterValidator(_service_name)]
Endpoint = Annotated[str, AfterValidator(parse_endpoint)]
SecretUrl = Annotated[
    Secret, GetPydanticSchema(lambda _source, _handler: core_schema.no_info_plain_validator_function(_secret_url))
]
Mailbox = Annotated[str, AfterValidator(_mailbox)]
Mode = Annotated[str, one_of("off", "bearer", "services")]
Tls = Annotated[str, one_of("none", "starttls", "tls")]
Format = Annotated[str, one_of("json", "slack")]


class Service(Section):
    """One caller that says its name in X-Service-ID."""

    token: Token | None = Field(default=None, description="Its secret, or sha256: and the hex digest of it.")
    rate: Number = Field(default=0.0, description="Requests per second and process; 0 is no limit.")
    burst: NotNegative = Field(default=0, description="Requests at once; 0 is as many as one second of rate.")


class Auth(Section):
    """Who may use the data path."""

    mode: Mode = Field(
        default="off",
        description="off (anybody), bearer (one of tokens) or services (X-Service-ID and the token of that service).",
    )
    tokens: Many[Token] = Field(
        default=(), description="bearer: accepted secrets, each as it is or as sha256: and its hex digest."
    )
    services: Mapping[ServiceName, Service] = Field(default={}, description="services: callers by name.")
    verify_url: Endpoint | None = Field(
        default=None,
        repr=False,
        description="services: a URL that is asked, at most once a minute per token, whether it still accepts the token; "
        "it gets X-Service-ID and Authorization and answers 2xx, 401 or 403.",
    )

    @model_validator(mode="after")
    def _somebody_can_get_in(self) -> Self:
        if self.mode == "bearer" and not self.tokens:
            raise ValueError("mode is bearer, but there are no tokens")
        if self.mode == "services" and not self.services:
            raise ValueError("mode is services, but there are no services")
        if self.verify_url is None:
            for name, service in self.services.items():
                if service.token is None:
                    raise ValueError(f'service "{name}" needs a token, since there is no verify_url')
        return self


class Admin(Section):
    """Who may use /admin."""

    token: Token | None = Field(
        default=None,
        description="Bearer token of the admin API, or sha256: and its hex digest; absent: callers from this machine only.",
    )
    open: Flag = Field(default=False, description="true lets everybody in without credentials, as eidex does.")


class Mail(Section):
    """A mail server, and from whom to whom."""

    host: Annotated[str, AfterValidator(_host)] = Field(default="", description="SMTP server; empty sends no mail.")
    port: Annotated[NotNegative, Field(le=65535)] = Field(
        default=0, description="Its port; 0 is 25, with starttls 587, with tls 465."
    )
    tls: Tls = Field(
        default="none",
        description="none, starttls or tls from the first byte; certificates are checked, SSL_CERT_FILE adds an authority.",
    )
    user: str = Field(default="", description="User for SMTP authentication; empty does not authenticate.")
    password: Credential | None = Field(default=None, description="Password of that user.")
    sender: Mailbox | None = Field(default=None, description="Address that mails come from.")
    to: Many[Mailbox] = Field(default=(), description="Addresses that mails go to.")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.host and not (self.sender and self.to):
            raise ValueError("a host needs sender and to as well")
        if bool(self.user) != (self.password is not None):
            raise ValueError("user and password go together")
        return self

    @property
    def place(self) -> tuple[str, int]:
        """Host and port to connect to."""
        return self.host, self.port or PORTS[self.tls]


class Webhook(Section):
    """A URL that takes alerts by POST."""

    url: SecretUrl | None = Field(
        default=None, description="Where alerts are posted; kept secret, its path often is one."
    )
    format: Format = Field(default="json", description="json (all fields) or slack (one text).")


class Alerts(Section):
    """What people are told, and how often."""

    mail: Mail = Field(default=Mail(), description="Alerts by mail.")
    webhook: Webhook = Field(default=Webhook(), description="Alerts by webhook.")
    min_interval: Duration = Field(
        default=Duration.of("60s"), description="Between two messages; what happens meanwhile comes in the next one."
    )
    repeat: PositiveDuration = Field(
        default=Duration.of("1h"), description="How often people are reminded of what still goes on."
    )
    queue: AtLeastOne = Field(
        default=100, description="Alerts that wait for a channel that is lost; then the oldest is dropped and counted."
    )
