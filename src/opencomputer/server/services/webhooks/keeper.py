"""The engine that sends what is due, whatever it is about: a session, or the life of a sandbox."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.webhooks import WebhookFault, WebhookSender
from opencomputer.server.domain.errors import SecretUnreadable
from opencomputer.server.domain.sessions.errors import DestinationForbidden
from opencomputer.server.domain.webhooks.attempts import Attempt, Dispatch
from opencomputer.server.services.hints import Hint

_log = structlog.get_logger(__name__)

_HOLD = timedelta(seconds=60)
"""Longer than a sending takes. One that was taken by a node that died is sent again after this."""
_AT_ONCE = 128
_EACH_AT_ONCE = 4
_LONGEST_PAUSE_SECONDS = 30.0
_SHORTEST_PAUSE_SECONDS = 0.5
_REPAIR_SECONDS = 5.0
_REDIRECTS = range(300, 400)
_ERROR_CHARACTERS = 1024

_Sent = TypeVar("_Sent", bound=Dispatch)


@dataclass(frozen=True)
class Letter:
    """What is posted, signed for the moment it was made."""

    url: str
    headers: Mapping[str, str]
    body: bytes


class Mail(Protocol[_Sent]):
    """What is to be sent, and what became of it."""

    async def claim(self, now: datetime, until: datetime, *, limit: int, each: int) -> Sequence[_Sent]:
        """Those that are due longest, held `until` then; of no destination more than `each` at once."""
        ...

    async def next_due(self) -> datetime | None: ...

    async def letter(self, sent: _Sent, at: datetime) -> Letter | None:
        """None when it is not to be sent now, and nothing else is to be done. Raises SecretUnreadable."""
        ...

    async def settle(self, sent: _Sent, attempt: Attempt, chance: float) -> None:
        """Write down how an attempt ended."""
        ...


@dataclass(frozen=True)
class Postage:
    """What sending takes. `heard` wakes whoever sends, when there is something."""

    sender: WebhookSender
    heard: Callable[[], AbstractContextManager[Hint]]
    chance: Callable[[], float] = random.random


class DeliveryKeeper(Generic[_Sent]):
    """Sends what is due. At least once: what was taken by a node that died is sent again."""

    def __init__(self, mail: Mail[_Sent], postage: Postage, clock: Clock) -> None:
        self._mail = mail
        self._postage = postage
        self._clock = clock
        self._sending: set[asyncio.Task[None]] = set()

    async def keep(self) -> None:
        """Send until cancelled."""
        try:
            with self._postage.heard() as hint:
                while True:
                    await hint.wait(await self._round())
        finally:
            for task in self._sending:
                task.cancel()
            await asyncio.gather(*self._sending, return_exceptions=True)

    async def _round(self) -> float:
        """Begin sending what is due; how long to wait then, unless something happens."""
        try:
            return await self._begin()
        except Exception:
            _log.exception("deliveries were not looked at; the next look tries again")
            return _REPAIR_SECONDS

    async def _begin(self) -> float:
        now = self._clock.now()
        free = _AT_ONCE - len(self._sending)
        if free <= 0:
            # Each that ends tells, and this is looked at again.
            return _LONGEST_PAUSE_SECONDS
        for sent in await self._mail.claim(now, now + _HOLD, limit=free, each=_EACH_AT_ONCE):
            task = asyncio.create_task(self._send(sent), name=f"webhook {sent.id}")
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        due = await self._mail.next_due()
        if due is None:
            return _LONGEST_PAUSE_SECONDS
        wait = (due - self._clock.now()).total_seconds()
        return min(_LONGEST_PAUSE_SECONDS, max(_SHORTEST_PAUSE_SECONDS, wait))

    async def _send(self, sent: _Sent) -> None:
        try:
            attempt = await self._attempt(sent)
            if attempt is not None:
                await self._mail.settle(sent, attempt, self._postage.chance())
        except Exception:
            # The top of a task. It is held for a while yet, and then taken again.
            _log.exception("a webhook was not sent", delivery=sent.id)

    async def _attempt(self, sent: _Sent) -> Attempt | None:
        try:
            letter = await self._mail.letter(sent, self._clock.now())
            if letter is None:
                return None
            answer = await self._postage.sender.post(letter.url, letter.headers, letter.body)
        except SecretUnreadable:
            return Attempt(self._clock.now(), None, "the secret that signs cannot be read by the server")
        except (DestinationForbidden, WebhookFault) as error:
            return Attempt(self._clock.now(), None, error.message)
        told = _told(answer.status, answer.excerpt)
        return Attempt(self._clock.now(), answer.status, told, answer.retry_after)


def _told(status: int, excerpt: str) -> str:
    text = f"the receiver answered {status}"
    if status in _REDIRECTS:
        text += "; redirects are not followed"
    return (f"{text}: {excerpt}" if excerpt else text)[:_ERROR_CHARACTERS]
