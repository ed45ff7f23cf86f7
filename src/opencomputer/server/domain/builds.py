"""What is remembered of image builds, with a name or without."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from opencomputer.wire.ids import OrgId, SnapshotId


class BuildState(StrEnum):
    BUILDING = "building"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True)
class ImageRow:
    """A build that is kept, or under way, for one organisation under one key.

    `shown_manifest` is the manifest as it may be shown, as JSON. A build that failed has no row: the next
    request builds again.
    """

    org_id: OrgId
    key: str
    content_hash: str
    state: BuildState
    shown_manifest: str
    created_at: datetime
    last_used_at: datetime
    snapshot_id: SnapshotId | None = None


@dataclass(frozen=True)
class NamedSnapshot:
    """A name, and what was built for it. `shown_manifest` as in `ImageRow`."""

    id: SnapshotId
    org_id: OrgId
    name: str
    state: BuildState
    content_hash: str
    shown_manifest: str
    created_at: datetime
    last_used_at: datetime | None = None
    snapshot_id: SnapshotId | None = None
    is_public: bool = False
    error: str | None = None
