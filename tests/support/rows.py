"""Rows for tests: complete, and different only where the test says so."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.stores import MachineRow, MachineState
from opencomputer.server.domain import naming
from opencomputer.server.domain.access import ApiKey, Organisation
from opencomputer.server.domain.layers import LayerId, MemoryId
from opencomputer.server.domain.lifecycle_webhooks import Webhook, new_webhook_id
from opencomputer.server.domain.sandbox import Sandbox, SandboxShape, SandboxState
from opencomputer.server.domain.secrets import Ciphertext, Secret, SecretStore
from opencomputer.server.domain.snapshot import (
    Origin,
    Patch,
    SavedMemory,
    Snapshot,
    SnapshotKind,
    SnapshotPurpose,
    SnapshotState,
)
from opencomputer.wire.ids import OrgId, SandboxId, SecretStoreId, SnapshotId

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SHAPE = SandboxShape(4096, 1, 20480)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def organisation(name: str = "an organisation") -> Organisation:
    return Organisation(naming.new_org_id(), name, NOON)


def api_key(org_id: OrgId, **changes: Any) -> ApiKey:
    key = ApiKey(
        id=naming.new_api_key_id(),
        org_id=org_id,
        name="a key",
        prefix="osb_00000000",
        hash=secrets.token_hex(32),
        created_at=NOON,
    )
    return replace(key, **changes)


def sandbox(org_id: OrgId, **changes: Any) -> Sandbox:
    row = Sandbox(
        id=naming.new_sandbox_id(),
        org_id=org_id,
        state=SandboxState.CREATING,
        template="base",
        template_hash="h1",
        shape=SHAPE,
        timeout_seconds=0,
        environment={"A": "1"},
        metadata={"purpose": "test"},
        alias=None,
        network_enabled=True,
        machine_id=None,
        created_at=NOON,
    )
    return replace(row, **changes)


def machine(**changes: Any) -> MachineRow:
    row = MachineRow(
        id=MachineId(naming.new_machine_id()),
        state=MachineState.STARTING,
        template_hash="h1",
        image_version="memory-1",
        guest_token="a token",
        created_at=NOON,
    )
    return replace(row, **changes)


def layer() -> LayerId:
    return LayerId(secrets.token_hex(32))


def memory(**changes: Any) -> SavedMemory:
    return replace(SavedMemory(MemoryId(secrets.token_hex(32)), "memory-1", "a token"), **changes)


def checkpoint(org_id: OrgId, sandbox_id: SandboxId, **changes: Any) -> Snapshot:
    """One that is processing, under a name of its own."""
    snapshot_id = naming.new_snapshot_id()
    row = Snapshot(
        id=snapshot_id,
        org_id=org_id,
        purpose=SnapshotPurpose.CHECKPOINT,
        kind=SnapshotKind.FULL,
        state=SnapshotState.PROCESSING,
        origin=Origin(template="base", template_hash="h1", shape=SHAPE),
        created_at=NOON,
        sandbox_id=sandbox_id,
        name=f"checkpoint {snapshot_id}",
    )
    return replace(row, **changes)


def patch(checkpoint_id: SnapshotId, **changes: Any) -> Patch:
    row = Patch(
        id=naming.new_patch_id(),
        checkpoint_id=checkpoint_id,
        sequence=0,
        script="true",
        description=None,
        created_at=NOON,
    )
    return replace(row, **changes)


def secret_store(org_id: OrgId, **changes: Any) -> SecretStore:
    """One under a name of its own, with no list."""
    store_id = naming.new_secret_store_id()
    return replace(SecretStore(store_id, org_id, f"store {store_id}", (), NOON, NOON), **changes)


def secret(store_id: SecretStoreId, **changes: Any) -> Secret:
    row = Secret(
        id=naming.new_secret_id(),
        store_id=store_id,
        name="A_KEY",
        ciphertext=Ciphertext(1, secrets.token_bytes(40)),
        hosts=(),
        created_at=NOON,
        updated_at=NOON,
    )
    return replace(row, **changes)


def webhook(org_id: OrgId, **changes: Any) -> Webhook:
    row = Webhook(
        id=new_webhook_id(),
        org_id=org_id,
        name="a name",
        url="https://example.com",
        types=(),
        sandbox_id=None,
        enabled=True,
        headers={"X-A": "1"},
        secrets=((Ciphertext(1, secrets.token_bytes(8)), None),),
        idempotency_key=None,
        request_hash=None,
        created_at=NOON,
        updated_at=NOON,
    )
    return replace(row, **changes)
