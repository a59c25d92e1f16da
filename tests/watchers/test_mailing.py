"""Mails to a real SMTP server: plain, STARTTLS, TLS, with a login; and every way in which it can be lost."""

from __future__ import annotations

import asyncio
import logging
import smtplib
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from autohedge.settings.people import Mail
from autohedge.watchers.mailing import composed, reason_of, sent
from tests.support.fair import Watch
from tests.support.house import eventually
from tests.watchers.postoffice import PASSWORD, USER, certificate, post_office

Certificate = tuple[ssl.SSLContext, str]
LOGIN = {"user": USER, "password": PASSWORD}


@pytest.fixture(scope="module")
def cert(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("tls"))


def to(port: int, **more: Any) -> Mail:
    tree = {
        "host": "localhost",
        "port": port,
        "sender": "hedge@edge.example",
        "to": ["ops@a.example", "lead@b.example"],
    }
    return Mail.model_validate(tree | more)


async def post(mail: Mail, text: str = "it is out\n", limit: float = 60.0) -> str:
    return await sent(mail, composed(mail, "pair: out, 6/10 succeeded", text, 1_790_000_000.0), limit)


def test_a_mail_as_people_get_it() -> None:
    """From, To, one line of subject, a date, an id of the sender's domain, and the sign of a machine (RFC 3834)."""

    async def main() -> None:
        async with post_office() as office:
            mail = to(office.port)
            message = composed(
                mail, "two\r\nBcc: x@y\nlines \u00fc", "body \u00fc \U0001f600\n" + "long " * 500, 1_790_000_000.0
            )
            assert await sent(mail, message) == ""
            (got,), (envelope,) = office.mails, office.envelopes
            assert (got["From"], got["To"]) == ("hedge@edge.example", "ops@a.example, lead@b.example")
            assert got["Subject"] == "two Bcc: x@y lines \u00fc"
            assert got["Bcc"] is None
            assert got["Date"] == "Mon, 21 Sep 2026 14:13:20 -0000"
            assert str(got["Message-ID"]).endswith("@edge.example>")
            assert got["Auto-Submitted"] == "auto-generated"
            assert office.text().startswith("body \u00fc \U0001f600\n")
            assert envelope.rcpt_tos == ["ops@a.example", "lead@b.example"]
            assert (office.encrypted, office.users) == ([False], [None])

    asyncio.run(main())


def test_starttls_with_a_login(cert: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server refuses everything before STARTTLS, and logins without it."""
    monkeypatch.setenv("SSL_CERT_FILE", cert[1])

    async def main() -> None:
        async with post_office(starttls=cert[0], auth=True) as office:
            assert await post(to(office.port, tls="starttls", **LOGIN)) == ""
            assert (office.encrypted, office.users) == ([True], [USER])

    asyncio.run(main())


def test_tls_from_the_first_byte(cert: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", cert[1])

    async def main() -> None:
        async with post_office(tls=cert[0]) as office:
            assert await post(to(office.port, tls="tls")) == ""
            assert len(office.mails) == 1

    asyncio.run(main())


def test_a_login_without_tls() -> None:
    """A relay in the same network may want one."""

    async def main() -> None:
        async with post_office(auth=True) as office:
            assert await post(to(office.port, **LOGIN)) == ""
            assert office.users == [USER]

    asyncio.run(main())


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("starttls", "the mail server's certificate is not accepted (self-signed certificate)"),
        ("tls", "the mail server's certificate is not accepted (self-signed certificate)"),
    ],
)
def test_a_foreign_certificate_is_not_accepted(cert: Certificate, mode: str, words: str) -> None:
    """Nothing is sent, no password either."""

    async def main() -> None:
        shown: dict[str, Any] = {mode: cert[0]}
        async with post_office(**shown) as office:
            assert await post(to(office.port, tls=mode)) == words
            assert office.mails == []

    asyncio.run(main())


def test_starttls_never_falls_back_to_plain_text() -> None:
    """A man in the middle takes the offer away."""

    async def main() -> None:
        async with post_office() as office:
            reason = await post(to(office.port, tls="starttls"))
            assert reason == "the mail server does not offer what is configured (STARTTLS or authentication)"
            assert office.mails == []

    asyncio.run(main())


def test_wrong_passwords_and_missing_logins() -> None:
    async def main() -> None:
        async with post_office(auth=True) as office:
            wrong = to(office.port, user=USER, password="hidden")
            assert await post(wrong) == "the mail server refuses user and password (535)"
            assert await post(to(office.port)) == "the mail server refuses the sender (530)"
        async with post_office() as office:
            reason = await post(to(office.port, **LOGIN))
            assert reason == "the mail server does not offer what is configured (STARTTLS or authentication)"

    asyncio.run(main())


@pytest.mark.parametrize("user", ["m\u00fcller", "a b"])
def test_an_odd_user_is_no_exception(user: str) -> None:
    async def main() -> None:
        async with post_office(auth=True) as office:
            assert await post(to(office.port, user=user, password="p")) != ""

    asyncio.run(main())


def test_refused_recipients(caplog: pytest.LogCaptureFixture) -> None:
    """One of two: the mail is sent and the log says how many; both: it is not. No address is told."""

    async def main() -> None:
        async with post_office() as office:
            office.refused = frozenset({"ops@a.example"})
            with caplog.at_level(logging.WARNING):
                assert await post(to(office.port)) == ""
            assert office.envelopes[0].rcpt_tos == ["lead@b.example"]
            assert "the mail server refused 1 of 2 recipients" in caplog.text
            assert "a.example" not in caplog.text
            office.refused = frozenset({"ops@a.example", "lead@b.example"})
            assert await post(to(office.port)) == "the mail server refuses every recipient (550)"

    asyncio.run(main())


@pytest.mark.parametrize("answer", ["451 later, ops@a.example", "554 spam"])
def test_a_refused_mail(answer: str) -> None:
    """The server's own words are not repeated."""

    async def main() -> None:
        async with post_office() as office:
            office.answer = answer
            assert await post(to(office.port)) == f"the mail server refuses the mail ({answer[:3]})"

    asyncio.run(main())


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert asyncio.run(post(to(taken.getsockname()[1]))) == "nobody listens at the mail server's address"


def test_a_server_that_says_nothing_is_cut() -> None:
    """The whole conversation is bounded, the line is cut, and its thread ends."""

    async def main() -> None:
        async with post_office() as office:
            office.stuck = True
            watch = Watch()
            assert await post(to(office.port), limit=0.3) == "the mail server takes too long"
            assert watch.seconds < 2
            await eventually(lambda: all(thread.name != "smtp" for thread in threading.enumerate()))

    asyncio.run(main())


def test_a_cancel_passes_through_and_the_end_of_the_process_does_not_wait() -> None:
    async def main() -> None:
        async with post_office() as office:
            office.stuck = True
            task = asyncio.create_task(post(to(office.port)))
            await office.came.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < 30  # it would say something after a minute


def test_a_garbled_greeting(tmp_path: Path) -> None:
    """Some other protocol listens there."""

    async def main() -> None:
        async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        async with server:
            assert "mail server" in await post(to(server.sockets[0].getsockname()[1]))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "the mail server's name is not known"),
        (TimeoutError("timed out"), "the mail server does not answer in time"),
        (ssl.SSLError(1, "wrong version number"), "TLS with the mail server failed"),
        (smtplib.SMTPServerDisconnected("x"), "the mail server closed the connection or did not answer in time"),
        (OSError(113, "No route to host 10.0.0.1"), "the mail was not sent (OSError)"),
        (ValueError("secret"), "the mail was not sent (ValueError)"),
    ],
)
def test_reasons_are_in_our_words(error: OSError | ValueError, words: str) -> None:
    assert reason_of(error) == words
