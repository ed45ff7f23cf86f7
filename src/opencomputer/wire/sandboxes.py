"""`/api/sandboxes`: create, get, list, timeout, sleep (sandbox-wire.md section 2)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictInt, StrictStr

from opencomputer.wire.model import WireModel
from opencomputer.wire.webhooks import MAX_INLINE, InlineWebhook, InlineWebhookView

MAX_SECONDS = 10 * 365 * 86400
"""No duration on the wire may be longer: ten years, in seconds."""

EnvironmentMap = Annotated[dict[StrictStr, StrictStr], Field(max_length=1000)]


class CreateSandbox(WireModel):
    """What create accepts."""

    template_id: StrictStr = "base"
    """What it starts from: `base`, or another template of the server."""
    timeout: Annotated[StrictInt, Field(ge=0, le=MAX_SECONDS)] = 0
    """Seconds without use after which it falls asleep; 0: never."""
    envs: EnvironmentMap | None = None
    """Variables of all its processes."""
    metadata: EnvironmentMap | None = None
    """Kept with it, and shown."""
    memory_mb: StrictInt | None = None
    """1024, 4096, 8192 or 16384; 4096 if nothing is said."""
    cpu_count: StrictInt | None = None
    """As fits the memory."""
    disk_mb: StrictInt | None = None
    """Of what it writes; 20480 if nothing is said."""
    alias: Annotated[StrictStr, Field(max_length=1000)] | None = None
    """Another name, shown."""
    network_enabled: StrictBool = True
    """False: it reaches nothing."""
    burst: StrictBool | None = None
    """Understood, and nothing else."""
    sandbox_family: StrictStr | None = None
    """Understood, and nothing else."""
    image: Any = None
    """A manifest: the image is built first, if it is not kept already."""
    snapshot: Any = None
    """The name of an image to start from."""
    secret_store: Annotated[StrictStr, Field(max_length=1000)] | None = None
    """The name of a secret store whose secrets it may use."""
    egress_allowlist: list[StrictStr] | None = None
    """The only hosts it may reach, as patterns."""
    preview_auth: Any = None
    """`{"token": "auto"}`, or a token of yours: visitors of its previews need it."""
    webhooks: Annotated[list[InlineWebhook], Field(max_length=MAX_INLINE)] | None = None
    """Who is told of it, from its first event on."""


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
    webhooks: list[InlineWebhookView] | None = None
    """Those that were asked for with it; only in the answer that made it."""
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
