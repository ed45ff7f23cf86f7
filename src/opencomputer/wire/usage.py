"""`/api/usage` and `…/usage`: GiB-seconds of memory, and of disk beyond what is included (section 19)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from opencomputer.wire.model import WireModel, optional

DEFAULT_USAGE_PAGE = 50
MAX_USAGE_PAGE = 500

_SandboxId = Annotated[str, Field(serialization_alias="sandboxId")]


class UsageAmounts(WireModel):
    memory_gb_seconds: float
    disk_overage_gb_seconds: float


class SandboxUsageItem(UsageAmounts):
    sandbox_id: _SandboxId
    alias: str | None = optional()
    status: str
    tags: dict[str, str]
    tags_last_updated_at: datetime | None


class TagUsageItem(UsageAmounts):
    tag_key: str
    tag_value: str
    sandbox_count: int


class UntaggedUsage(UsageAmounts):
    sandbox_count: int


class UsagePageView(WireModel):
    """`total` is of everything that matched, on this page or not."""

    begin: Annotated[datetime, Field(serialization_alias="from")]
    end: Annotated[datetime, Field(serialization_alias="to")]
    group_by: str
    total: UsageAmounts
    next_cursor: str | None


class UsageBySandbox(UsagePageView):
    items: list[SandboxUsageItem]


class UsageByTag(UsagePageView):
    """`untagged` is of the sandboxes that matched and do not have the tag."""

    items: list[TagUsageItem]
    untagged: UntaggedUsage


class SeriesTotals(WireModel):
    memory_allocated_gb_seconds: float
    memory_used_gb_seconds: float
    uptime_seconds: int
    memory_allocated_peak_mb: int
    memory_used_peak_mb: int


class SeriesPoint(WireModel):
    """The minute that begins at `ts`."""

    ts: datetime
    memory_allocated_gb_seconds: float
    memory_used_gb_seconds: float
    uptime_seconds: int
    allocated_memory_mb: int
    used_memory_mb_avg: int
    used_memory_mb_peak: int


class SandboxUsageView(WireModel):
    sandbox_id: _SandboxId
    alias: str | None = optional()
    begin: Annotated[datetime, Field(serialization_alias="from")]
    end: Annotated[datetime, Field(serialization_alias="to")]
    totals: SeriesTotals
    points: list[SeriesPoint]
