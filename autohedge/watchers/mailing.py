"""How a mail leaves: smtplib in a thread of its own, bounded in time, and never an exception.

Rules
- What went wrong comes back as a sentence without addresses, names or the server's own words. Only a cancel passes through.
- Each step of the conversation has `STEP` seconds, the whole has `WHOLE`; then the line is cut.
- The thread is a daemon, not one of asyncio's: the end of the process never waits for a mail server.
- `starttls` never falls back to plain text; certificates are checked against the system's authorities (and SSL_CERT_FILE).
- Mails say that a machine wrote them (RFC 3834), so that no absence note answers.

It must not know: what a mail is about, when it is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import smtplib
import socket
import ssl
import threading
from contextlib import suppress
from email import policy
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from autohedge.settings.people import Mail

LOGGER = logging.getLogger(__name__)
STEP = 10.0  # seconds
WHOLE = 30.0
ONE_LINE = policy.default.clone(
    max_line_length=500
)  # Python folds a long subject before its first word, which shows as a blank


def composed(mail: Mail, subject: str, text: str, now: float) -> EmailMessage:
    """A mail from and to whom the settings say. `subject` is one line; `now` is epoch seconds."""
    assert mail.sender is not None
    message = EmailMessage(policy=ONE_LINE)
    message["From"] = mail.sender
    message["To"] = ", ".join(mail.to)
    message["Subject"] = " ".join(subject.split())
    message["Date"] = formatdate(now)
    message["Message-ID"] = make_msgid(domain=mail.sender.rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    return message


async def sent(mail: Mail, message: EmailMessage, limit: float = WHOLE) -> str:
    """Give the mail to the server within `limit` seconds: "" when it took it, else why not."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[str] = loop.create_future()
    lines: list[smtplib.SMTP] = []

    def work() -> None:
        reason = _delivered(mail, message, lines)
        with suppress(RuntimeError):  # the loop ended before the server answered
            loop.call_soon_threadsafe(_settle, done, reason)

    threading.Thread(target=work, name="smtp", daemon=True).start()
    try:
        async with asyncio.timeout(limit):
            return await done
    except TimeoutError:
        return "the mail server takes too long"
    finally:
        for line in lines:
            _cut(line)


def _delivered(mail: Mail, message: EmailMessage, lines: list[smtplib.SMTP]) -> str:
    """The whole conversation, in the thread. `lines` gets the connection, so that it can be cut from outside."""
    host, port = mail.place
    try:
        if mail.tls == "tls":
            line: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=STEP, context=ssl.create_default_context())
        else:
            line = smtplib.SMTP(host, port, timeout=STEP)
        lines.append(line)
        try:
            if mail.tls == "starttls":
                line.starttls(context=ssl.create_default_context())
            if mail.password is not None:
                line.login(mail.user, mail.password.reveal())
            refused = line.send_message(message)
            with suppress(OSError):  # it has the mail; how it says good-bye does not matter
                line.quit()
        finally:
            line.close()
    except (OSError, ValueError) as error:
        return reason_of(error)
    if refused:
        LOGGER.warning("the mail server refused %d of %d recipients", len(refused), len(mail.to))
    return ""


# What smtplib raises, in our words; the first row that fits decides.
_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (smtplib.SMTPAuthenticationError, "the mail server refuses user and password"),
    (smtplib.SMTPNotSupportedError, "the mail server does not offer what is configured (STARTTLS or authentication)"),
    (smtplib.SMTPRecipientsRefused, "the mail server refuses every recipient"),
    (smtplib.SMTPSenderRefused, "the mail server refuses the sender"),
    (smtplib.SMTPResponseException, "the mail server refuses the mail"),
    (smtplib.SMTPServerDisconnected, "the mail server closed the connection or did not answer in time"),
    (ssl.SSLCertVerificationError, "the mail server's certificate is not accepted"),
    (ssl.SSLError, "TLS with the mail server failed"),
    (TimeoutError, "the mail server does not answer in time"),
    (ConnectionRefusedError, "nobody listens at the mail server's address"),
    (socket.gaierror, "the mail server's name is not known"),
)


def reason_of(error: OSError | ValueError) -> str:
    """Why the server did not take the mail. Of its own words, which may repeat addresses and names, only the codes."""
    told = next((words for kind, words in _WORDS if isinstance(error, kind)), "")
    if not told:
        return f"the mail was not sent ({type(error).__name__})"
    codes: set[object] = set()
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        codes = {code for code, _ in error.recipients.values()}
    elif isinstance(error, smtplib.SMTPResponseException):
        codes = {error.smtp_code}
    elif isinstance(error, ssl.SSLCertVerificationError):
        codes = {error.verify_message}
    return f"{told} ({', '.join(sorted(map(str, codes)))})" if codes else told


def _settle(done: asyncio.Future[str], reason: str) -> None:
    if not done.done():
        done.set_result(reason)


def _cut(line: smtplib.SMTP) -> None:
    """End a conversation that its thread still waits in."""
    sock = getattr(line, "sock", None)
    if sock is not None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
