"""Alerts at a real SMTP server and a real webhook: what arrives, and what is told when nothing does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from autohedge.core.types import Address
from autohedge.rules.alerts import retired
from autohedge.rules.letters import Letter
from autohedge.rules.retirement import ALL, Sighting, confirm
from autohedge.settings.people import Alerts, Webhook
from autohedge.watchers.alerting import Alerting, by_webhook, channels
from autohedge.watchers.asking import Asker
from tests.watchers.postoffice import PASSWORD, USER, PostOffice, certificate, post_office
from tests.watchers.test_alerting import back, out
from tests.watchers.test_asking import engine, ok


def settings(office: PostOffice | None = None, **more: Any) -> Alerts:
    tree: dict[str, Any] = {"min_interval": 0}
    if office is not None:
        mail = {"host": "localhost", "port": office.port, "sender": "hedge@edge.example", "to": ["ops@a.example"]}
        tree["mail"] = mail | more.pop("mail", {})
    return Alerts.model_validate(tree | more)


async def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - the state has no event
            await asyncio.sleep(0.002)


def test_a_mail_arrives_with_the_figures(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acceptance 1: at a real SMTP server, by STARTTLS and with a login; a retirement once, however often it is seen."""
    context, cert = certificate(tmp_path_factory.mktemp("tls"))
    monkeypatch.setenv("SSL_CERT_FILE", cert)

    async def main() -> None:
        async with post_office(starttls=context, auth=True) as office, Asker() as asker:
            given = settings(office, mail={"tls": "starttls", "user": USER, "password": PASSWORD})
            one = Alerting(given, channels(given, asker, time.time, "edge-1"), time.time, "edge-1")
            task = asyncio.create_task(one.run())
            one.tell(out(at=time.time()))
            await until(lambda: len(office.mails) == 1)
            fact, _ = confirm(None, Sighting("walkai", ALL, 410, "", b"api access has been retired"), time.time())
            for _ in range(50):
                one.tell(back(at=time.time()))
            one.tell(retired(fact, True, time.time()))
            await until(lambda: len(office.mails) >= 2)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            subject = "[AutoHedge] backend b, model r1: a replica is out of the pool: 6/10 succeeded"
            assert office.subjects[0] == subject
            texts = "".join(office.text(number) for number in range(len(office.mails)))
            assert texts.count("walkai: the provider is retired (410): api access has been retired") == 1
            assert texts.count("the replica is back: 2 trials answered") == 1
            assert "10.0.0.7" not in texts
            assert one.lost == ""

    asyncio.run(main())


def test_a_mail_server_that_is_gone_is_visible_and_nothing_else() -> None:
    async def main() -> None:
        async with post_office() as office, Asker() as asker:
            given = settings(office)
        one = Alerting(given, channels(given, asker, time.time, "edge-1"), time.time, "edge-1")
        task = asyncio.create_task(one.run())
        one.tell(out(at=time.time()))
        await until(lambda: one.lost != "")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert one.lost == "mail: nobody listens at the mail server's address"

    asyncio.run(main())


def posted(serve: Any, form: str = "json", path: str = "/services/T0/hidden?x=1", limit: float = 60.0) -> str:
    """Post one letter to a local server; what came of it."""

    async def main() -> str:
        async with engine(serve) as address, Asker(limit) as asker:
            webhook = Webhook.model_validate({"url": f"{address}{path}", "format": form})
            async with asyncio.timeout(limit):
                return await by_webhook(webhook, asker, "edge-1")(Letter("subject", "text\n", ({"topic": "x"},)))

    return asyncio.run(main())


@pytest.mark.parametrize(("form", "key"), [("json", "alerts"), ("slack", "text")])
def test_a_webhook_gets_json(form: str, key: str) -> None:
    """To the whole path, secret or not."""
    heard: list[bytes] = []

    async def serve(request: bytes, writer: asyncio.StreamWriter) -> None:
        heard.append(request)
        writer.write(ok(b"ok"))

    assert posted(serve, form) == ""
    head, _, body = heard[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /services/T0/hidden?x=1 HTTP/1.1\r\n")
    assert b"content-type: application/json" in head.lower()
    assert key in json.loads(body)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (b"500 Oops", "the webhook answers with status 500"),
        (b"404 No", "the webhook answers with status 404"),
        (b"302 Found", "the webhook answers with status 302"),
        (b"429 Slow", "the webhook answers with status 429"),
    ],
)
def test_a_webhook_that_refuses(status: bytes, words: str) -> None:
    """Its answer is not repeated, nor is its URL."""

    async def serve(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(ok(b"hidden", status=status))

    assert posted(serve) == words


def test_a_webhook_that_hangs_or_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded; the reason is the transport's word."""
    monkeypatch.setattr("autohedge.watchers.alerting.LIMIT", 2.0)

    async def hang(_request: bytes, _writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    assert posted(hang) == "no first byte in time"

    async def main() -> str:
        async with engine(hang) as address, Asker() as asker:
            closed = Address(address.host, address.port)
        webhook = Webhook.model_validate({"url": f"{closed}/x"})
        async with Asker() as asker:
            return await by_webhook(webhook, asker, "edge-1")(Letter("s", "t", ()))

    assert asyncio.run(main()) == "connection refused"
