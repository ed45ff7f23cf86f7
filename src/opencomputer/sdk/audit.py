"""What a sandbox reached and what it was refused."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.control_plane import get

if TYPE_CHECKING:
    from opencomputer.sdk.answers import Described, JsonObject
    from opencomputer.sdk.sandbox_link import SandboxLink

_PAGE = 1000


@dataclass(frozen=True)
class AuditQuery:
    """Which events. `host` may be `*.example.com`; `after` is the `position` of one seen before."""

    after: int = 0
    decision: str | None = None
    host: str | None = None


async def pages(link: SandboxLink, query: AuditQuery) -> AsyncGenerator[list[JsonObject]]:
    """All events up to now, oldest first, as the server describes them; always at least one page."""
    after = query.after
    while True:
        params = {"after": str(after), "limit": str(_PAGE)}
        if query.decision:
            params["decision"] = query.decision
        if query.host:
            params["host"] = query.host
        answer = answers.json_object(await link.plane.json(get(link.path("audit"), params)))
        events = answers.json_objects(answer.get("events"))
        yield events
        after = answers.whole(answer, "next") or after
        if len(events) < _PAGE:
            return


class AuditTrail:
    """The part of a `Sandbox` that is about what it reached."""

    _link: SandboxLink

    async def audit(
        self, *, after: int = 0, decision: str | None = None, host: str | None = None
    ) -> list[Described]:
        """The connections it made and was refused, oldest first; also when it sleeps or is stopped.

        `decision` is "allowed" or "denied"; `host` a name or `*.example.com`; `after` the `position` of the
        last event seen before, so that a log can be followed. Never any content, never a secret's value.
        """
        return await events(self._link, AuditQuery(after, decision, host))


async def events(link: SandboxLink, query: AuditQuery) -> list[JsonObject]:
    """All of them at once."""
    return [event async for page in pages(link, query) for event in page]
