"""Tells people: takes events from everywhere at once, and sends what of it is worth a message by mail and by webhook.

Rules
- `tell` never waits and never fails; a request may call it. What is told and when is decided in rules/alerts.py.
- Each channel goes its own way: one that is lost is tried again after 5 s, 10 s ... 5 min, and loses nothing but alerts.
- At most one message per `min_interval` and channel; what happens meanwhile comes in the next one.
- Several workers send one message: each item is leased before it is sent, and who does not get the lease counts it as told.
  State that is lost cannot be leased, so only the `speaker` among the workers tells of that.

It must not know: what an event means, SMTP, who shares the leases.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

from autohedge.providers.base import Question
from autohedge.rules.alerts import Board, Event, Item, Pace, Topic
from autohedge.rules.letters import Letter, as_json, as_slack, letter
from autohedge.settings.people import Alerts, Mail, Webhook, place_of
from autohedge.watchers.asking import Asking

LOGGER = logging.getLogger(__name__)
FIRST, LONGEST = 5.0, 300.0  # seconds before a lost channel is tried again
LEASE = 120.0  # seconds in which all workers have heard of the same fact
LIMIT = 10.0  # seconds for one post to a webhook

Send = Callable[[Letter], Awaitable[str]]  # "" when it was taken, else why not
Lease = Callable[[str, float], Awaitable[bool]]  # (key, seconds): `Shared.lease`


async def _alone(_key: str, _seconds: float) -> bool:
    return True


@dataclass(slots=True)
class _Channel:
    name: str
    send: Send
    board: Board
    lost: str = ""
    sent_at: float = float("-inf")
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class Alerting:
    """`sends` are the channels by name, `clock` gives epoch seconds, `sender` names this AutoHedge in the messages."""

    def __init__(
        self,
        settings: Alerts,
        sends: Mapping[str, Send],
        clock: Callable[[], float],
        sender: str,
        lease: Lease = _alone,
        *,
        speaker: bool = True,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._sender = sender
        self._lease = lease
        self._speaker = speaker
        pace = Pace(settings.repeat, settings.queue)
        self._channels = [_Channel(name, send, Board(pace)) for name, send in sends.items()]

    def tell(self, *events: Event) -> None:
        """Take what happened."""
        for channel in self._channels:
            for event in events:
                channel.board.note(event)
            channel.wake.set()

    def keep_only(self, owners: Collection[str]) -> None:
        """End the facts of replicas, backends and sources that are gone; `owners` as `rules.alerts.living` gives them."""
        for channel in self._channels:
            channel.board.keep_only(owners, self._clock())
            channel.wake.set()

    @property
    def lost(self) -> str:
        """Why alerts do not get through, by channel; "" when they do as far as we know."""
        return "; ".join(f"{channel.name}: {channel.lost}" for channel in self._channels if channel.lost)

    @property
    def dropped(self) -> int:
        """Alerts that nobody was told of, because a channel was lost for too long."""
        return sum(channel.board.dropped for channel in self._channels)

    async def run(self) -> None:
        """Send until cancelled; ends at once when there is no channel."""
        async with asyncio.TaskGroup() as group:
            for channel in self._channels:
                group.create_task(self._serve(channel), name=f"alerts by {channel.name}")

    async def _serve(self, channel: _Channel) -> None:
        wait = FIRST
        while True:
            await self._until_due(channel)
            try:
                lost = await self._turn(channel)
            except Exception:
                LOGGER.exception("a fault of AutoHedge while it sent an alert by %s", channel.name)
                lost = "a fault of AutoHedge; see its log"
            if lost != channel.lost:
                told = f"are lost, everything else goes on: {lost}" if lost else "get through again"
                LOGGER.warning("alerts by %s %s", channel.name, told)
            channel.lost = lost
            if lost:
                await asyncio.sleep(wait)
            wait = min(LONGEST, wait * 2) if lost else FIRST

    async def _until_due(self, channel: _Channel) -> None:
        while True:
            channel.wake.clear()
            left = max(channel.board.next_at(), channel.sent_at + self._settings.min_interval) - self._clock()
            if left <= 0:
                return
            try:
                async with asyncio.timeout(min(LEASE, left)):  # the clock may be set meanwhile
                    await channel.wake.wait()
            except TimeoutError:
                continue

    async def _turn(self, channel: _Channel) -> str:
        """Send all that is due and ours in one message; why it did not get through, "" when it did."""
        now = self._clock()
        ours: list[Item] = []
        for item in channel.board.due(now):
            if await self._is_ours(channel, item):
                ours.append(item)
            else:
                channel.board.told((item,), now)
        if not ours:
            return channel.lost
        message = letter(ours, self._sender, now, channel.board.dropped)
        lost = await channel.send(message)
        if not lost:
            LOGGER.info("alert by %s: %s", channel.name, message.subject)
            channel.sent_at = self._clock()
            channel.board.told(ours, channel.sent_at)
        return lost

    async def _is_ours(self, channel: _Channel, item: Item) -> bool:
        """Whether this worker tells it, and no other."""
        if item.event.topic is Topic.STATE:
            return self._speaker
        often = item.event.topic is Topic.EXHAUSTED  # each worker finds out by itself, whenever a caller asks it
        seconds = self._settings.repeat * 0.9 if often else max(LEASE, 2 * self._settings.min_interval)
        fact = hashlib.sha256(item.event.key.encode("utf-8", "replace")).hexdigest()[:24]
        return await self._lease(f"alert:{channel.name}:{fact}:{item.phase.value.replace(' ', '-')}", seconds)


def channels(settings: Alerts, asking: Asking, clock: Callable[[], float], sender: str) -> dict[str, Send]:
    """The channels that are configured, by name."""
    found: dict[str, Send] = {}
    if settings.mail.host:
        found["mail"] = by_mail(settings.mail, clock)
    if settings.webhook.url is not None:
        found["webhook"] = by_webhook(settings.webhook, asking, sender)
    return found


def by_mail(mail: Mail, clock: Callable[[], float]) -> Send:
    """Letters as mails."""
    # SMTP and mails are two dozen modules: only those who use them pay for them.
    from autohedge.watchers.mailing import composed, sent  # noqa: PLC0415

    async def send(message: Letter) -> str:
        return await sent(mail, composed(mail, message.subject, message.text, clock()))

    return send


def by_webhook(webhook: Webhook, asking: Asking, sender: str) -> Send:
    """Letters as posts of JSON; any 2xx means taken. The URL is in no message."""
    assert webhook.url is not None
    address, path = place_of(webhook.url.reveal())

    async def send(message: Letter) -> str:
        body = as_slack(message) if webhook.format == "slack" else as_json(message, sender)
        reply = await asking(address, Question(path, body), limit=LIMIT)
        if 200 <= reply.status < 300:
            return ""
        return reply.failure or f"the webhook answers with status {reply.status}"

    return send
