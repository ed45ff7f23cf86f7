"""`/api/sandboxes`: create, get, list, timeout, sleep (sandbox-wire.md section 2)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictInt, StrictStr

from opencomputer.wire.model import WireModel

MAX_SECONDS = 10 * 365 * 86400
"""No duration on the wire may be longer: ten years, in seconds."""

EnvironmentMap = Annotated[dict[StrictStr, StrictStr], Field(max_length=1000)]


class CreateSandbox(WireModel):
    """What create accepts. Fields of parts this server does not offer are kept to refuse them clearly."""

    template_id: StrictStr = "base"
    timeout: Annotated[StrictInt, Field(ge=0, le=MAX_SECONDS)] = 0
    envs: EnvironmentMap | None = None
    metadata: EnvironmentMap | None = None
    memory_mb: StrictInt | None = None
    cpu_count: StrictInt | None = None
    disk_mb: StrictInt | None = None
    alias: Annotated[StrictStr, Field(max_length=1000)] | None = None
    network_enabled: StrictBool = True
    burst: StrictBool | None = None
    sandbox_family: StrictStr | None = None
    image: Any = None
    snapshot: Any = None
    secret_store: Annotated[StrictStr, Field(max_length=1000)] | None = None
    egress_allowlist: list[StrictStr] | None = None
    preview_auth: Any = None
    webhooks: Any = None


class SandboxView(WireModel):
    """A sandbox as create, get and list show it."""

    sandbox_id: str
    status: str
    template_id: str
    template: str
    connect_url: str | None = None
    token: str | None = None
    sandbox_domain: str
    region: str
    cpu_count: int
    memory_mb: int
    disk_mb: int
    timeout: int
    metadata: dict[str, str]
    tags: dict[str, str] = Field(default_factory=dict)
    tags_last_updated_at: datetime | None = None
    alias: str | None = None
    network_enabled: bool = True
    created_at: datetime
    started_at: datetime | None = None
    stopped_at: datetime | None = None
    stop_reason: str | None = None
    from_checkpoint_id: str | None = None
    patch_error: str | None = None
    last_hibernate_error: str | None = None
    preview_auth_token: str | None = None
    """What visitors of its previews need; only in the answer that made it."""
    warnings: list[str] | None = None
    """What the maker of this sandbox should know, in answers to who made it."""
    recovered: int | None = None
    """The step of the recovery ladder that the last wake had to take."""


class ForkedView(SandboxView):
    """A sandbox that was made from a checkpoint or another sandbox just now."""

    memory_restored: bool


class HibernatedView(WireModel):
    sandbox_id: str
    status: str
    hibernation_key: str | None = None
    size_bytes: int | None = None


class Wake(WireModel):
    timeout: Annotated[StrictInt, Field(ge=0, le=MAX_SECONDS)] | None = None


class SetTimeout(WireModel):
    timeout: Annotated[StrictInt, Field(ge=0, le=MAX_SECONDS)]


class TokenView(WireModel):
    token: str
