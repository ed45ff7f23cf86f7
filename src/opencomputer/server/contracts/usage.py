"""Where is kept what sandboxes used. Their intervals begin and end in the transactions of `SandboxStore`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from opencomputer.server.contracts.tags import TagStore
from opencomputer.server.domain.metering import Interval, MemorySample
from opencomputer.server.domain.usage import Described, Window
from opencomputer.wire.ids import OrgId, SandboxId


class UsageStore(Protocol):
    async def intervals(self, org_id: OrgId, window: Window) -> Sequence[Interval]:
        """Of all the organisation's sandboxes that have some in the window, in the order they began in."""
        ...

    async def intervals_of(self, sandbox_id: SandboxId, window: Window) -> Sequence[Interval]: ...

    async def samples_of(self, sandbox_id: SandboxId, window: Window) -> Sequence[MemorySample]:
        """In the order they were taken in."""
        ...

    async def described(self, sandbox_ids: Collection[SandboxId]) -> Mapping[SandboxId, Described]: ...

    async def note(self, second: int, samples: Sequence[MemorySample]) -> None:
        """Write down that the node was there, and what it saw, at once."""
        ...

    async def last_noted(self) -> int | None:
        """When the node was there last, as far as is known."""
        ...

    async def prune(self, *, intervals_before: int, samples_before: int) -> int:
        """Remove intervals that ended, and samples that were taken, before. Returns how many."""
        ...


@dataclass(frozen=True)
class UsageTables:
    """What reports about usage are made of."""

    ledger: UsageStore
    tags: TagStore
