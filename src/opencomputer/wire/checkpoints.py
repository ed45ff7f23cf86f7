"""`…/checkpoints`: create, list, restore, publish (sandbox-wire.md section 11)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr, computed_field

from opencomputer.wire.model import WireModel


class RetentionPolicy(WireModel):
    """`max_count` absent or 0 means as many as a sandbox may have."""

    mode: Literal["none", "delete_oldest"] = "none"
    max_count: Annotated[StrictInt, Field(ge=0)] | None = None


class CreateCheckpoint(WireModel):
    name: StrictStr
    """One for each checkpoint of the sandbox."""
    kind: Literal["full", "disk_only"] | None = None
    """With memory and processes, or files only."""
    promote_to_full: StrictBool | None = None
    """Understood, so that clients may send it. Disk-only checkpoints stay what they are on this server."""
    retention_policy: RetentionPolicy | None = None
    """What makes room for it."""


class SandboxConfig(WireModel):
    """What a sandbox made from the checkpoint inherits."""

    template_id: str
    cpu_count: int
    memory_mb: int
    disk_mb: int
    envs: dict[str, str]
    metadata: dict[str, str]
    network_enabled: bool
    workdir: str | None = None


class CheckpointView(WireModel):
    """A checkpoint. The sandbox's id has both of the contract's spellings (decision D12)."""

    id: str
    sandbox_id: str
    org_id: str
    name: str
    kind: str
    status: str
    size_bytes: int
    created_at: datetime
    ready_at: datetime | None = None
    is_public: bool
    sandbox_config: SandboxConfig
    error_msg: str | None = None
    failed_at: datetime | None = None

    @computed_field(alias="sandboxId")
    @property
    def sandbox_id_once_more(self) -> str:
        return self.sandbox_id


class RestoreView(WireModel):
    sandbox_id: Annotated[str, Field(serialization_alias="sandboxId")]
    checkpoint_id: str
    status: str = "restoring"
