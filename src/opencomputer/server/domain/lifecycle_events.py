"""What is told of the life of a sandbox: the kinds of events, and which follow from which change.

Ids follow from what happened, so that whoever tells the same thing twice says nothing new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opencomputer.server.domain.previews import Preview
from opencomputer.server.domain.sandbox import Sandbox, SandboxShape, SandboxState, StopReason
from opencomputer.wire.ids import EventId, OrgId, SandboxId, SnapshotId

FORKED = "sandbox.forked"
"""It goes on from what another sandbox of the organisation was. `parentId`: that one."""

CREATED = "sandbox.created"
"""It was made, and has a machine. `template`: what it was made from."""

READY = "sandbox.ready"
"""It can be used. Comes after `sandbox.created`, and once."""

HIBERNATED = "sandbox.hibernated"
"""It sleeps: everything is saved, and it uses nothing any more."""

RESUMED = "sandbox.resumed"
"""It is awake again, and can be used."""

STOPPED = "sandbox.stopped"
"""It has ended for good. `reason`: `user_requested`, or `crash` when its machine ended by itself."""

CHECKPOINT_CREATED = "sandbox.checkpoint.created"
"""A checkpoint of it is ready. `checkpointId`: which."""

SCALED = "sandbox.scaled"
"""It has another size, by hand or by autoscaling. `cpuCount` and `memoryMB`: which."""

PREVIEW_URL_CHANGED = "sandbox.preview_url.changed"
"""A preview URL was made or removed by hand. `port`; `url`: where it is, or `null` when it was removed."""

TEST = "sandbox.test"
"""Somebody asked for a test of this webhook; it comes whatever was chosen, and cannot be. `test`: `true`."""

MIGRATED = "sandbox.migrated"
"""It moved to another server. This server does not tell it, and lets you ask for it."""

TYPES = (
    CREATED,
    READY,
    HIBERNATED,
    RESUMED,
    STOPPED,
    CHECKPOINT_CREATED,
    FORKED,
    SCALED,
    PREVIEW_URL_CHANGED,
    MIGRATED,
)
"""What a destination may ask for."""

NO_SANDBOX = SandboxId("sb-test")
"""What a test of a destination for all sandboxes is about."""


@dataclass(frozen=True)
class LifecycleEvent:
    """Something that happened to a sandbox. Nothing in `data` is of this server's inside."""

    id: EventId
    type: str
    at: datetime
    org_id: OrgId
    sandbox_id: SandboxId
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Move:
    """A sandbox that went from one state to another at this time."""

    sandbox: Sandbox
    before: SandboxState
    at: datetime


def told_of(move: Move) -> Sequence[LifecycleEvent]:
    """What a change of state tells; nothing when clients cannot see that there was one."""
    sandbox, after = move.sandbox, move.sandbox.state
    if move.before is SandboxState.CREATING:
        # One that was never usable was never there.
        return _births(move) if after is SandboxState.RUNNING else ()
    if after is SandboxState.STOPPED:
        reason = sandbox.stop_reason or StopReason.USER_REQUESTED
        return [_once(move, STOPPED, {"reason": reason.value})]
    if (move.before, after) == (SandboxState.HIBERNATING, SandboxState.HIBERNATED):
        return [_each_time(move, HIBERNATED)]
    if (move.before, after) == (SandboxState.WAKING, SandboxState.RUNNING):
        return [_each_time(move, RESUMED)]
    return ()


def checkpoint_created(
    org_id: OrgId, sandbox_id: SandboxId, checkpoint_id: SnapshotId, at: datetime
) -> LifecycleEvent:
    event_id = _id_of(sandbox_id, CHECKPOINT_CREATED, checkpoint_id)
    data = {"checkpointId": checkpoint_id}
    return LifecycleEvent(event_id, CHECKPOINT_CREATED, at, org_id, sandbox_id, data)


def scaled(org_id: OrgId, sandbox_id: SandboxId, shape: SandboxShape, at: datetime) -> LifecycleEvent:
    data = {"cpuCount": shape.cpu_count, "memoryMB": shape.memory_mb}
    event_id = _id_of(sandbox_id, SCALED, f"{at.isoformat()} {shape.memory_mb}")
    return LifecycleEvent(event_id, SCALED, at, org_id, sandbox_id, data)


def preview_changed(preview: Preview, url: str | None, at: datetime) -> LifecycleEvent:
    event_id = _id_of(preview.sandbox_id, PREVIEW_URL_CHANGED, f"{preview.id} {url}")
    data = {"port": preview.port, "url": url}
    return LifecycleEvent(event_id, PREVIEW_URL_CHANGED, at, preview.org_id, preview.sandbox_id, data)


def document_of(event: LifecycleEvent) -> Mapping[str, Any]:
    """An event as receivers get it."""
    whole: Mapping[str, Any] = {
        "id": event.id,
        "ts": event.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "orgId": event.org_id,
        "sandboxId": event.sandbox_id,
        "type": event.type,
        "data": event.data,
    }
    return {"type": event.type, "sandboxId": event.sandbox_id, "eventId": event.id, "event": whole}


def _births(move: Move) -> Sequence[LifecycleEvent]:
    sandbox = move.sandbox
    born = [_once(move, CREATED, {"template": sandbox.template}), _once(move, READY, {})]
    if sandbox.forked_from is None:
        return born
    return [_once(move, FORKED, {"parentId": sandbox.forked_from}), *born]


def _once(move: Move, type: str, data: Mapping[str, Any]) -> LifecycleEvent:
    return _event(move, type, "", data)


def _each_time(move: Move, type: str) -> LifecycleEvent:
    return _event(move, type, move.at.isoformat(), {})


def _event(move: Move, type: str, which: str, data: Mapping[str, Any]) -> LifecycleEvent:
    sandbox = move.sandbox
    event_id = _id_of(sandbox.id, type, which)
    return LifecycleEvent(event_id, type, move.at, sandbox.org_id, sandbox.id, data)


def _id_of(sandbox_id: SandboxId, type: str, which: str) -> EventId:
    digest = hashlib.sha256("\0".join((sandbox_id, type, which)).encode())
    return EventId(f"evt_{digest.hexdigest()[:24]}")
