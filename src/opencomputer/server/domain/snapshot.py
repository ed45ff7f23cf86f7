"""Snapshots: what a sandbox can be started from again.

A snapshot is a stack of immutable layers above a template, with or without a memory image, and the facts a
machine needs to go on from them. Checkpoints, hibernations and built images are all snapshots; what differs
is who refers to them and when they are removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.layers import LayerId, MemoryId
from opencomputer.server.domain.sandbox import Sandbox, SandboxShape
from opencomputer.wire.ids import OrgId, PatchId, SandboxId, SnapshotId

MAX_NAME = 128


class SnapshotPurpose(StrEnum):
    CHECKPOINT = "checkpoint"
    HIBERNATION = "hibernation"
    IMAGE = "image"


class SnapshotKind(StrEnum):
    """`FULL` has memory and files, `DISK_ONLY` files."""

    FULL = "full"
    DISK_ONLY = "disk_only"


class SnapshotState(StrEnum):
    PROCESSING = "processing"
    READY = "ready"
    FAILED = "failed"


MAX_CHECKPOINTS: Mapping[SnapshotKind, int] = {SnapshotKind.FULL: 10, SnapshotKind.DISK_ONLY: 100}


@dataclass(frozen=True)
class Origin:
    """What a machine of a snapshot is like, and what a sandbox made from it inherits.

    `layers` are above the template's, bottom first. `environment` and `metadata` are defaults that the maker
    of a sandbox may override; `workdir` is the default working directory, None means the user's home.
    `generation` counts how often memory was copied on the way here.
    """

    template: str
    template_hash: str
    shape: SandboxShape
    layers: tuple[LayerId, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    workdir: str | None = None
    network_enabled: bool = True
    generation: int = 0
    patch_source: SnapshotId | None = None
    """The checkpoint whose patches a machine of this origin gets."""
    patch_position: int = 0
    """The last of those patches that is in the files already."""
    secret_stores: tuple[str, ...] = ()
    """Names only: what is in them is looked up anew for each sandbox."""
    egress_allowlist: tuple[str, ...] = ()


def origin_of(sandbox: Sandbox) -> Origin:
    """What a copy of the sandbox as it is now would be like. Its layers are those its machine began with."""
    return Origin(
        template=sandbox.template,
        template_hash=sandbox.template_hash,
        shape=sandbox.shape,
        layers=sandbox.layers,
        environment=sandbox.environment,
        metadata=sandbox.metadata,
        workdir=sandbox.workdir,
        network_enabled=sandbox.network_enabled,
        generation=sandbox.generation,
        patch_source=sandbox.patch_source,
        patch_position=sandbox.patch_position,
        secret_stores=sandbox.secret_stores,
        egress_allowlist=sandbox.egress_allowlist,
    )


@dataclass(frozen=True)
class SavedMemory:
    """A memory image. `guest_token` is what the guest in it accepts; another `image_version` refuses it."""

    id: MemoryId
    image_version: str
    guest_token: str = field(repr=False)


@dataclass(frozen=True)
class Snapshot:
    """One row of the truth about a snapshot. `sandbox_id` is whose it is or was; images have none.

    `size_bytes` is what it takes in the store, 0 until it is ready. `memory` is None for `DISK_ONLY`, and
    until it is ready.
    """

    id: SnapshotId
    org_id: OrgId
    purpose: SnapshotPurpose
    kind: SnapshotKind
    state: SnapshotState
    origin: Origin
    created_at: datetime
    sandbox_id: SandboxId | None = None
    name: str = ""
    memory: SavedMemory | None = None
    size_bytes: int = 0
    is_public: bool = False
    error: str | None = None
    ready_at: datetime | None = None
    failed_at: datetime | None = None


@dataclass(frozen=True)
class Patch:
    """A script that sandboxes of a checkpoint run once, in the order of `sequence`, which never repeats."""

    id: PatchId
    checkpoint_id: SnapshotId
    sequence: int
    script: str
    description: str | None
    created_at: datetime


def check_checkpoint_name(name: str) -> None:
    if not name.strip() or len(name) > MAX_NAME:
        raise InvalidInput(f"name must have 1 to {MAX_NAME} characters", field="name")


@dataclass(frozen=True)
class Retention:
    """`maximum` None: nothing is deleted to make room."""

    maximum: int | None = None


def to_delete(
    kind: SnapshotKind, existing: Sequence[Snapshot], protected: frozenset[SnapshotId], retention: Retention
) -> Sequence[SnapshotId]:
    """Which checkpoints have to go so that one more of `kind` fits. Pure.

    `existing` are all checkpoints of the sandbox; `protected` are those that others need. Raises InvalidInput
    when there is no room and none may be made: then nothing is to be deleted.
    """
    limit = MAX_CHECKPOINTS[kind]
    same = sorted((each for each in existing if each.kind is kind), key=lambda each: each.created_at)
    allowed = limit if retention.maximum is None else retention.maximum
    surplus = len(same) + 1 - allowed
    if surplus <= 0:
        return []
    if retention.maximum is None:
        raise InvalidInput(f"a sandbox can have {limit} {kind} checkpoints; delete one first", field="kind")
    free = [each.id for each in same if not each.is_public and each.id not in protected]
    if len(free) < surplus:
        raise InvalidInput(
            f"not enough of the sandbox's {len(same)} {kind} checkpoints can be deleted: "
            "the others are public, have patches or are in use",
            field="retentionPolicy",
        )
    return free[:surplus]
