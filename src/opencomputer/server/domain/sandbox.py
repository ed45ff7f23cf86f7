"""A sandbox's states, its legal transitions and how they show to clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from opencomputer.server.domain.errors import Conflict
from opencomputer.wire.ids import OrgId, SandboxId


class SandboxState(StrEnum):
    CREATING = "creating"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"


class StopReason(StrEnum):
    USER_REQUESTED = "user_requested"
    CRASH = "crash"
    START_FAILED = "start_failed"


TRANSITIONS: Mapping[SandboxState, frozenset[SandboxState]] = {
    SandboxState.CREATING: frozenset({SandboxState.RUNNING, SandboxState.FAILED, SandboxState.STOPPED}),
    SandboxState.RUNNING: frozenset({SandboxState.STOPPED}),
    SandboxState.STOPPED: frozenset(),
    SandboxState.FAILED: frozenset(),
}

HIDDEN = frozenset({SandboxState.CREATING, SandboxState.FAILED})
"""States a client never sees: create is synchronous and a failed create leaves nothing (behaviour 2.3)."""

TERMINAL = frozenset({SandboxState.STOPPED, SandboxState.FAILED})


def check_transition(before: SandboxState, after: SandboxState) -> None:
    if after not in TRANSITIONS[before]:
        raise Conflict(f"a sandbox that is {before} cannot become {after}")


@dataclass(frozen=True)
class SandboxShape:
    """What a sandbox may use, in the contract's units."""

    memory_mb: int
    cpu_count: int
    disk_mb: int


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

    @property
    def visible(self) -> bool:
        return self.state not in HIDDEN
