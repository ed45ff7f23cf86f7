"""What a sandbox reached and what it was refused, for its organisation."""

from __future__ import annotations

from collections.abc import Sequence

from opencomputer.server.contracts.egress import EgressEventStore, EgressQuery, RecordedEvent
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle


class Audit:
    def __init__(self, events: EgressEventStore, lifecycle: Lifecycle) -> None:
        self._events = events
        self._lifecycle = lifecycle

    async def find(self, query: EgressQuery) -> Sequence[RecordedEvent]:
        """Oldest first. Sandboxes that were stopped have a log, too. Raises NotFound."""
        await self._lifecycle.get(query.org_id, query.sandbox_id)
        return await self._events.find(query)
