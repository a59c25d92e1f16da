"""A real SMTP server (aiosmtpd) in the loop of the test, with TLS, authentication and bad days."""

from __future__ import annotations

import asyncio
import email
import ssl
import subprocess
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER, PASSWORD = "hedge", "s3cret"


@dataclass
class PostOffice:
    """What came in. `answer` replaces the reply to the data of a mail; `refused` are recipients that it does not know."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    envelopes: list[Envelope] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    users: list[str | None] = field(default_factory=list)
    answer: str = "250 taken"
    refused: frozenset[str] = frozenset()
    came: asyncio.Event = field(default_factory=asyncio.Event)
    stuck: bool = False

    async def handle_RCPT(self, _server: SMTP, _session: Session, envelope: Envelope, to: str, _options: Any) -> str:
        if to in self.refused:
            return f"550 no such user {to}"
        envelope.rcpt_tos.append(to)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, session: Session, envelope: Envelope) -> str:
        self.came.set()
        if self.stuck:
            await asyncio.sleep(60)
        if not self.answer.startswith("250"):
            return self.answer
        content = envelope.content
        assert isinstance(content, bytes)
        message = email.message_from_bytes(content, policy=default)
        assert isinstance(message, EmailMessage)
        self.mails.append(message)
        self.envelopes.append(envelope)
        self.encrypted.append(session.ssl is not None)
        login = session.auth_data
        self.users.append(login.login.decode() if isinstance(login, LoginPassword) else None)
        return self.answer

    @property
    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for mail in self.mails]

    def text(self, number: int = -1) -> str:
        return str(self.mails[number].get_content()).replace("\r\n", "\n")


def _authenticator(_server: Any, _session: Any, _envelope: Any, _mechanism: str, login: Any) -> AuthResult:
    good = isinstance(login, LoginPassword) and (login.login, login.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=good, auth_data=login if good else None, handled=good)


@asynccontextmanager
async def post_office(
    *, starttls: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None, auth: bool = False
) -> AsyncIterator[PostOffice]:
    """`starttls` offers STARTTLS with that certificate, `tls` speaks TLS from the first byte, `auth` requires a login."""
    office = PostOffice()
    servers: list[SMTP] = []

    def made() -> SMTP:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it does not like logins without TLS; that is what is tested
            server = SMTP(
                office,
                hostname="post.test",
                tls_context=starttls,
                require_starttls=starttls is not None,
                authenticator=_authenticator if auth else None,
                auth_required=auth,
                auth_require_tls=starttls is not None or not auth,
            )
        servers.append(server)
        return server

    listener = await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0, ssl=tls)
    office.port = listener.sockets[0].getsockname()[1]
    try:
        yield office
    finally:
        listener.close()
        for server in servers:
            if isinstance(server.transport, asyncio.WriteTransport):
                server.transport.abort()
        await listener.wait_closed()
        handlers = [server._handler_coroutine for server in servers if server._handler_coroutine is not None]
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


def certificate(folder: Path) -> tuple[ssl.SSLContext, str]:
    """A server's context with a certificate for localhost made just now, and the file that clients trust it by."""
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    named = ["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert]
    subprocess.run([*made.split(), *named], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, cert
