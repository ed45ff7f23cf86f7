"""`…/preview`: records, the token, grants (sandbox-wire.md section 12)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StrictInt, StrictStr

from opencomputer.wire.model import WireModel

DEFAULT_GRANT_SECONDS = 3600
MAX_GRANT_SECONDS = 7 * 86400

Port = Annotated[StrictInt, Field(ge=1, le=65535)]


class CreatePreview(WireModel):
    """`auth_config` is there because clients send an empty one: what protects a preview is its token."""

    port: Port
    domain: Annotated[StrictStr, Field(max_length=253)] | None = None
    auth_config: Any = None


class PreviewView(WireModel):
    """The record of a port. `url` is for a browser, `hostname` has no scheme and no port of the server."""

    id: str
    sandbox_id: Annotated[str, Field(serialization_alias="sandboxId")]
    org_id: str
    hostname: str
    custom_hostname: str | None = None
    url: str
    port: int
    ssl_status: str = "active"
    auth_config: dict[str, Any] = Field(default_factory=dict)
    created_at: datetime


class RotatedView(WireModel):
    preview_auth_token: str
    scheme: str = "bearer"


class CreateGrant(WireModel):
    """`ttl` in seconds."""

    ttl: Annotated[StrictInt, Field(ge=1, le=MAX_GRANT_SECONDS)] = DEFAULT_GRANT_SECONDS


class GrantView(WireModel):
    """A grant. Its `url`, which lets in whoever has it, is told only when it is made."""

    id: str
    sandbox_id: Annotated[str, Field(serialization_alias="sandboxId")]
    port: int
    url: str | None = None
    created_at: datetime
    expires_at: datetime
