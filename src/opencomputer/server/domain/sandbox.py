"""A sandbox's states, its legal transitions and how they show to clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from opencomputer.server.domain.errors import Conflict
from opencomputer.server.domain.layers import LayerId
from opencomputer.wire.ids import OrgId, SandboxId, SnapshotId


class SandboxState(StrEnum):
    """Each is stored *before* the first step that makes the one before it untrue."""

    CREATING = "creating"
    RUNNING = "running"
    HIBERNATING = "hibernating"
    HIBERNATED = "hibernated"
    WAKING = "waking"
    RESTORING = "restoring"
    """Going back to a checkpoint, in place."""
    REBOOTING = "rebooting"
    STOPPED = "stopped"
    FAILED = "failed"


class StopReason(StrEnum):
    USER_REQUESTED = "user_requested"
    CRASH = "crash"
    START_FAILED = "start_failed"


TRANSITIONS: Mapping[SandboxState, frozenset[SandboxState]] = {
    SandboxState.CREATING: frozenset({SandboxState.RUNNING, SandboxState.FAILED, SandboxState.STOPPED}),
    SandboxState.RUNNING: frozenset(
        {
            SandboxState.HIBERNATING,
            SandboxState.RESTORING,
            SandboxState.REBOOTING,
            SandboxState.STOPPED,
        }
    ),
    SandboxState.HIBERNATING: frozenset(
        {SandboxState.RUNNING, SandboxState.HIBERNATED, SandboxState.STOPPED}
    ),
    SandboxState.HIBERNATED: frozenset({SandboxState.WAKING, SandboxState.STOPPED}),
    SandboxState.WAKING: frozenset({SandboxState.RUNNING, SandboxState.HIBERNATED, SandboxState.STOPPED}),
    SandboxState.RESTORING: frozenset({SandboxState.RUNNING, SandboxState.STOPPED}),
    SandboxState.REBOOTING: frozenset({SandboxState.RUNNING, SandboxState.STOPPED}),
    SandboxState.STOPPED: frozenset(),
    SandboxState.FAILED: frozenset(),
}

ACTIVE = frozenset(
    {
        SandboxState.CREATING,
        SandboxState.RUNNING,
        SandboxState.HIBERNATING,
        SandboxState.WAKING,
        SandboxState.RESTORING,
        SandboxState.REBOOTING,
    }
)
"""Has, or is about to have, a machine: counts against the limit of running sandboxes."""

_SHOWN = {
    SandboxState.HIBERNATING: SandboxState.RUNNING,
    SandboxState.WAKING: SandboxState.HIBERNATED,
    SandboxState.RESTORING: SandboxState.RUNNING,
    SandboxState.REBOOTING: SandboxState.RUNNING,
}


def shown(state: SandboxState) -> SandboxState:
    """The state a client sees: it knows nothing of what is under way (behaviour 2.3)."""
    return _SHOWN.get(state, state)


def stored_as(state: SandboxState) -> frozenset[SandboxState]:
    """All states that show as `state`."""
    return frozenset(each for each in SandboxState if shown(each) is state)


HIDDEN = frozenset({SandboxState.CREATING, SandboxState.FAILED})
"""States a client never sees: create is synchronous and a failed create leaves nothing (behaviour 2.3)."""

TERMINAL = frozenset({SandboxState.STOPPED, SandboxState.FAILED})


def check_transition(before: SandboxState, after: SandboxState) -> None:
    if after not in TRANSITIONS[before]:
        raise Conflict(f"a sandbox that is {before} cannot become {after}")


_FIRST_BACKOFF_SECONDS = 60.0
_LONGEST_BACKOFF_SECONDS = 900.0


def backoff_seconds(failures: int) -> float:
    """How long to wait before trying again to put a sandbox to sleep, after so many failures in a row."""
    return min(_FIRST_BACKOFF_SECONDS * 2 ** (failures - 1), _LONGEST_BACKOFF_SECONDS)


@dataclass(frozen=True)
class SandboxShape:
    """What a sandbox may use, in the contract's units."""

    memory_mb: int
    cpu_count: int
    disk_mb: int


@dataclass(frozen=True)
class Elasticity:
    """What is settled about the size of a sandbox besides the size itself.

    No automatic step up begins before `up_after`, and none down before `down_after`. `resize_mb` is the size
    that its machine is being given: written down before the machine is touched, gone when the row has it.
    """

    locked: bool = False
    autoscale: bool = False
    min_memory_mb: int | None = None
    max_memory_mb: int | None = None
    up_after: datetime | None = None
    down_after: datetime | None = None
    resize_mb: int | None = None


@dataclass(frozen=True)
class Sandbox:
    """One row of the truth about a sandbox."""

    id: SandboxId
    org_id: OrgId
    state: SandboxState
    template: str
    template_hash: str
    shape: SandboxShape
    timeout_seconds: int
    environment: Mapping[str, str]
    metadata: Mapping[str, str]
    alias: str | None
    network_enabled: bool
    machine_id: str | None
    created_at: datetime
    started_at: datetime | None = None
    stopped_at: datetime | None = None
    stop_reason: StopReason | None = None
    idempotency_key: str | None = None
    request_hash: str | None = None
    layers: tuple[LayerId, ...] = ()
    """Below its machine's own writable layer and above the template's, bottom first."""
    origin_layers: tuple[LayerId, ...] = ()
    """The layers it was created with: what `diff` compares with when nothing else is named."""
    workdir: str | None = None
    generation: int = 0
    """How often memory was copied on the way to this sandbox's present machine."""
    from_checkpoint: SnapshotId | None = None
    forked_from: SandboxId | None = None
    """The sandbox of the same organisation whose copy it is."""
    hibernation: SnapshotId | None = None
    """The snapshot it sleeps as, or slept as last."""
    patch_source: SnapshotId | None = None
    patch_position: int = 0
    patch_error: str | None = None
    due_at: datetime | None = None
    """When it goes to sleep if nobody uses it until then."""
    hibernate_failures: int = 0
    """Attempts to put it to sleep that failed since it was last used."""
    last_hibernate_error: str | None = None
    elasticity: Elasticity = field(default_factory=Elasticity)
    recovered: int | None = None
    """The step of the recovery ladder that the last wake had to take; None when memory was restored."""
    file_url_epoch: str | None = None
    """Part of every signed URL of its files: another value revokes them all."""
    secret_stores: tuple[str, ...] = ()
    """The names of its secret stores, weakest first: its own comes last, those of its origin before."""
    egress_allowlist: tuple[str, ...] = ()
    """Hosts it may reach, in addition to those its stores list. All lists empty: any."""

    preview_token_hash: str | None = None
    """Of the token that its previews ask for; None: they are open."""

    @property
    def visible(self) -> bool:
        return self.state not in HIDDEN
