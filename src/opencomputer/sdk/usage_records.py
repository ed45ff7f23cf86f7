"""What was used, as the server accounts for it. Memory and disk are in GiB-seconds, never in money."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class UsageTotals:
    """Sums over everything that matched. `disk_overage` is what exceeds the 20 GB that are included."""

    memory_gb_seconds: float
    disk_overage_gb_seconds: float


@dataclass(frozen=True)
class UsageSandboxItem:
    """What one sandbox used in the period."""

    sandbox_id: str
    memory_gb_seconds: float
    disk_overage_gb_seconds: float
    tags: dict[str, str] = field(default_factory=dict[str, str])
    tags_last_updated_at: str | None = None
    alias: str | None = None
    status: str | None = None


@dataclass(frozen=True)
class UsageTagItem:
    """What the sandboxes with one value of a tag used in the period."""

    tag_key: str
    tag_value: str
    memory_gb_seconds: float
    disk_overage_gb_seconds: float
    sandbox_count: int


@dataclass(frozen=True)
class UsageUntaggedBucket:
    """What the sandboxes without the tag used in the period."""

    memory_gb_seconds: float
    disk_overage_gb_seconds: float
    sandbox_count: int


@dataclass(frozen=True)
class UsageBySandboxResponse:
    """One page of usage by sandbox; `next_cursor` is None on the last. `total` is of all pages."""

    from_: str
    to: str
    total: UsageTotals
    items: list[UsageSandboxItem]
    next_cursor: str | None


@dataclass(frozen=True)
class UsageByTagResponse:
    """One page of usage by the values of a tag; `next_cursor` is None on the last."""

    from_: str
    to: str
    group_by: str
    total: UsageTotals
    untagged: UsageUntaggedBucket
    items: list[UsageTagItem]
    next_cursor: str | None


@dataclass(frozen=True)
class SandboxUsagePoint:
    """One minute of a sandbox. The sums of points are the totals; the sizes in MB are for charts."""

    ts: str
    memory_allocated_gb_seconds: float
    memory_used_gb_seconds: float
    uptime_seconds: int
    allocated_memory_mb: int
    used_memory_mb_avg: int
    used_memory_mb_peak: int


@dataclass(frozen=True)
class SandboxUsageTotals:
    """What one sandbox used in the period."""

    memory_allocated_gb_seconds: float
    memory_used_gb_seconds: float
    uptime_seconds: int
    memory_allocated_peak_mb: int
    memory_used_peak_mb: int


@dataclass(frozen=True)
class SandboxUsageResponse:
    """The usage of one sandbox, minute by minute."""

    sandbox_id: str
    from_: str
    to: str
    totals: SandboxUsageTotals
    points: list[SandboxUsagePoint]
    alias: str | None = None


@dataclass(frozen=True)
class TagKeyInfo:
    """A tag that sandboxes of the organisation have: how many have it, and with how many values."""

    key: str
    sandbox_count: int
    value_count: int
