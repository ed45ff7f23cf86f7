"""What sandboxes used, in memory. Intervals are those that `MemorySandboxes` writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from opencomputer.server.domain.metering import Interval, MemorySample
from opencomputer.server.domain.tags import Tags
from opencomputer.server.domain.usage import Described, Window
from opencomputer.wire.ids import OrgId, SandboxId
from tests.support.memory.stores import Tables


class MemoryUsage:
    """Implements UsageStore."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def intervals(self, org_id: OrgId, window: Window) -> Sequence[Interval]:
        rows = self._tables.sandboxes
        return [each for each in self._in(window) if rows[each.sandbox_id].org_id == org_id]

    async def intervals_of(self, sandbox_id: SandboxId, window: Window) -> Sequence[Interval]:
        return [each for each in self._in(window) if each.sandbox_id == sandbox_id]

    def _in(self, window: Window) -> Sequence[Interval]:
        begun = sorted(self._tables.intervals, key=lambda each: each.begin)
        begun = [each for each in begun if each.begin < window.end]
        return [each for each in begun if each.end is None or each.end > window.begin]

    async def samples_of(self, sandbox_id: SandboxId, window: Window) -> Sequence[MemorySample]:
        mine = [each for each in self._tables.samples if each.sandbox_id == sandbox_id]
        return [each for each in mine if window.begin <= each.second < window.end]

    async def described(self, sandbox_ids: Collection[SandboxId]) -> Mapping[SandboxId, Described]:
        rows = [self._tables.sandboxes[each] for each in sandbox_ids]
        return {row.id: Described(row.alias, row.state, Tags()) for row in rows}

    async def note(self, second: int, samples: Sequence[MemorySample]) -> None:
        await self._tables.moment("usage.note")
        self._tables.noted = second
        again = {(each.sandbox_id, each.second) for each in samples}
        kept = [each for each in self._tables.samples if (each.sandbox_id, each.second) not in again]
        self._tables.samples[:] = [*kept, *samples]

    async def last_noted(self) -> int | None:
        await self._tables.moment("usage.last_noted")
        return self._tables.noted

    async def prune(self, *, intervals_before: int, samples_before: int) -> int:
        intervals, samples = self._tables.intervals, self._tables.samples
        before = len(intervals) + len(samples)
        intervals[:] = [each for each in intervals if each.end is None or each.end >= intervals_before]
        samples[:] = [each for each in samples if each.second >= samples_before]
        return before - len(intervals) - len(samples)
