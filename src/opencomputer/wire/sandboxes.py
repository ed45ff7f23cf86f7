"""`/api/sandboxes`: create, get, list, timeout (sandbox-wire.md section 2)."""

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

    template: StrictStr = Field("base", alias="templateID")
    timeout: Annotated[StrictInt, Field(le=MAX_SECONDS)] = 0
    envs: EnvironmentMap | None = None
    metadata: EnvironmentMap | None = None
    memory_mb: StrictInt | None = Field(None, alias="memoryMB")
    cpu_count: StrictInt | None = Field(None, alias="cpuCount")
    disk_mb: StrictInt | None = Field(None, alias="diskMB")
    alias: StrictStr | None = None
    network_enabled: StrictBool = Field(True, alias="networkEnabled")
    burst: StrictBool | None = None
    sandbox_family: StrictStr | None = Field(None, alias="sandboxFamily")
    image: Any = None
    snapshot: Any = None
    secret_store: Any = Field(None, alias="secretStore")
    preview_auth: Any = Field(None, alias="previewAuth")
    webhooks: Any = None


class SandboxView(WireModel):
    """A sandbox as create, get and list show it."""

    sandbox_id: str = Field(alias="sandboxID")
    status: str
    template_id: str = Field(alias="templateID")
    template: str
    connect_url: str | None = Field(None, alias="connectURL")
    token: str | None = None
    sandbox_domain: str = Field(alias="sandboxDomain")
    region: str
    cpu_count: int = Field(alias="cpuCount")
    memory_mb: int = Field(alias="memoryMB")
    disk_mb: int = Field(alias="diskMB")
    timeout: int
    metadata: dict[str, str]
    tags: dict[str, str] = Field(default_factory=dict)
    tags_last_updated_at: datetime | None = Field(None, alias="tagsLastUpdatedAt")
    alias: str | None = None
    network_enabled: bool = Field(True, alias="networkEnabled")
    created_at: datetime = Field(alias="createdAt")
    started_at: datetime | None = Field(None, alias="startedAt")
    stopped_at: datetime | None = Field(None, alias="stoppedAt")
    stop_reason: str | None = Field(None, alias="stopReason")


class SetTimeout(WireModel):
    timeout: Annotated[StrictInt, Field(ge=0, le=MAX_SECONDS)]


class TokenView(WireModel):
    token: str
