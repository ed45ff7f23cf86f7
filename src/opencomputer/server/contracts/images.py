"""What images and named snapshots need from storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from opencomputer.server.domain.builds import BuildState, ImageRow, NamedSnapshot
from opencomputer.wire.ids import OrgId, SnapshotId


class ImageStore(Protocol):
    """Builds by key."""

    async def begin(self, row: ImageRow) -> None:
        """Insert a row, in place of an earlier one of its key."""
        ...

    async def ready(self, org_id: OrgId, key: str, snapshot_id: SnapshotId) -> None: ...

    async def get(self, org_id: OrgId, key: str) -> ImageRow | None: ...

    async def used(self, org_id: OrgId, key: str, at: datetime) -> None: ...

    async def remove(self, org_id: OrgId, key: str) -> None: ...

    async def list(self, org_id: OrgId) -> Sequence[ImageRow]:
        """Those that are ready, newest first."""
        ...

    async def all(self) -> Sequence[ImageRow]:
        """Of all organisations, in every state: for recovery and for removing what nobody uses."""
        ...


@dataclass(frozen=True)
class PrefixRow:
    """The files after the first steps of a build."""

    org_id: OrgId
    key: str
    snapshot_id: SnapshotId
    last_used_at: datetime


class PrefixStore(Protocol):
    """Files after the first steps of builds, by key. All of them can be built again."""

    async def find(self, org_id: OrgId, keys: Sequence[str]) -> Mapping[str, SnapshotId]: ...

    async def keep(self, row: PrefixRow) -> None:
        """Insert a row, in place of an earlier one of its key."""
        ...

    async def used(self, org_id: OrgId, key: str, at: datetime) -> None: ...

    async def remove(self, org_id: OrgId, key: str) -> None: ...

    async def all(self) -> Sequence[PrefixRow]:
        """Of all organisations."""
        ...


class NamedSnapshotStore(Protocol):
    async def reserve(self, row: NamedSnapshot, manifest: str) -> None:
        """Insert a row, and the whole manifest to build it from again.

        One of its name that failed makes place. Raises Conflict for any other of its name.
        """
        ...

    async def manifest(self, named_id: SnapshotId) -> str | None: ...

    async def settle(
        self, named_id: SnapshotId, state: BuildState, snapshot_id: SnapshotId | None, error: str | None
    ) -> bool:
        """Record how a build went, first or repeated. False: the row is gone."""
        ...

    async def get(self, org_id: OrgId, name: str) -> NamedSnapshot | None: ...

    async def list(self, org_id: OrgId) -> Sequence[NamedSnapshot]:
        """Newest first."""
        ...

    async def used(self, named_id: SnapshotId, at: datetime) -> None: ...

    async def publish(self, named_id: SnapshotId, public: bool) -> None: ...

    async def remove(self, org_id: OrgId, name: str) -> bool:
        """False when there is none."""
        ...

    async def all(self) -> Sequence[NamedSnapshot]:
        """Of all organisations."""
        ...


@dataclass(frozen=True)
class ImageTables:
    """Where images are written down: builds, what several have in common, and names."""

    builds: ImageStore
    prefixes: PrefixStore
    named: NamedSnapshotStore
