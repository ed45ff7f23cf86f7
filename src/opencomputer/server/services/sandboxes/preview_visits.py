"""Who is being let in to previews right now, so that they can be shown out."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from opencomputer.server.domain.errors import NotReady
from opencomputer.wire.ids import GrantId, SandboxId

MOST_VISITS = 1000


@dataclass(eq=False)
class Visit:
    """One request, from before it is looked at until its last byte. `over` is set when it has to end.

    `grant` is what let it in, when it was a grant; that ends at `expires_at`. What is `decided` on outdated
    grounds is `doubtful`, and decided again.
    """

    sandbox_id: SandboxId
    decided: bool = False
    doubtful: bool = False
    grant: GrantId | None = None
    expires_at: datetime | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Visits:
    def __init__(self) -> None:
        self._by_sandbox: dict[SandboxId, set[Visit]] = {}

    @contextmanager
    def visit(self, sandbox_id: SandboxId) -> Generator[Visit]:
        """Raises NotReady when a sandbox has too many visitors at a time."""
        visits = self._by_sandbox.setdefault(sandbox_id, set())
        if len(visits) >= MOST_VISITS:
            raise NotReady(f"this sandbox serves {MOST_VISITS} requests at a time already")
        visit = Visit(sandbox_id)
        visits.add(visit)
        try:
            yield visit
        finally:
            visits.discard(visit)
            if not visits:
                self._by_sandbox.pop(sandbox_id, None)

    def count(self, sandbox_id: SandboxId) -> int:
        return len(self._by_sandbox.get(sandbox_id, ()))

    def end_without_grant(self, sandbox_id: SandboxId) -> None:
        """The sandbox's token has changed: end what came by the old one, or before there was any."""
        self._end(sandbox_id, None)

    def end_by_grant(self, sandbox_id: SandboxId, grant_id: GrantId) -> None:
        self._end(sandbox_id, grant_id)

    def _end(self, sandbox_id: SandboxId, grant: GrantId | None) -> None:
        for visit in self._by_sandbox.get(sandbox_id, ()):
            visit.doubtful = not visit.decided
            if visit.decided and visit.grant == grant:
                visit.over.set()
