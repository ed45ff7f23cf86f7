"""What an organisation's sandboxes used. Asking neither wakes a sandbox nor counts as a use of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.usage import UsageTables
from opencomputer.server.domain.metering import Interval, second_of
from opencomputer.server.domain.sandbox import Sandbox
from opencomputer.server.domain.usage import (
    UsagePage,
    UsageQuestion,
    Window,
    by_sandbox,
    by_value,
    matching,
    page_of,
    total_of,
    used,
    without,
)
from opencomputer.server.domain.usage_series import UsageSeries, needed, series_of
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle
from opencomputer.wire.ids import OrgId, SandboxId

_Values = Mapping[str, Mapping[SandboxId, str]]


class UsageReports:
    """Sandboxes are grouped by the tags they have now, also for what they used before they had them."""

    def __init__(self, tables: UsageTables, lifecycle: Lifecycle, clock: Clock) -> None:
        self._ledger = tables.ledger
        self._tags = tables.tags
        self._lifecycle = lifecycle
        self._clock = clock

    async def page(self, question: UsageQuestion) -> UsagePage:
        """One page of the answer."""
        intervals = await self._ledger.intervals(question.org_id, question.window)
        keys = {each.key for each in question.filters}
        if question.tag is not None:
            keys.add(question.tag)
        values = {key: await self._tags.values(question.org_id, key) for key in sorted(keys)}
        # There may be very many: others have their turn meanwhile.
        page = await asyncio.to_thread(_page, question, intervals, values, second_of(self._clock.now()))
        if question.tag is not None:
            return page
        described = await self._ledger.described([SandboxId(each.name) for each in page.groups])
        return UsagePage(page.total, page.groups, page.following, page.untagged, described)

    async def series(
        self, org_id: OrgId, sandbox_id: SandboxId, window: Window
    ) -> tuple[Sandbox, UsageSeries]:
        """One sandbox, minute by minute. Raises NotFound."""
        sandbox = await self._lifecycle.get(org_id, sandbox_id)
        period = needed(window)
        intervals = await self._ledger.intervals_of(sandbox_id, period)
        samples = await self._ledger.samples_of(sandbox_id, period)
        now = second_of(self._clock.now())
        return sandbox, await asyncio.to_thread(series_of, intervals, samples, window, now)


def _page(question: UsageQuestion, intervals: Sequence[Interval], values: _Values, now: int) -> UsagePage:
    amounts = matching(used(intervals, question.window, now), question.filters, values)
    if question.tag is None:
        of_tag: Mapping[SandboxId, str] = {}
        groups = by_sandbox(amounts)
    else:
        of_tag = values[question.tag]
        groups = by_value(amounts, of_tag)
    page, following = page_of(groups, question.order, question.limit, question.after)
    return UsagePage(total_of(amounts.values()), page, following, without(amounts, of_tag), {})
