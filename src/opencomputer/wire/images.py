"""`/api/images` and `/api/snapshots` (sandbox-wire.md sections 13 and 14), and the build stream (1.8)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import StrictStr

from opencomputer.wire.model import WireModel

BUILD_LOG, ERROR, RESULT = "build_log", "error", "result"
"""The events of a build stream. Exactly one of the last two ends it."""


class CreateSnapshot(WireModel):
    """A name and a manifest. The manifest is read where its faults can be named."""

    name: StrictStr
    image: Any = None


class BuildImage(WireModel):
    image: Any = None


class BuildLogEvent(WireModel):
    step: int
    type: str
    message: str


class ImageView(WireModel):
    """A build, with or without a name. `manifest` is as sent; of large ones without the content of files."""

    id: str
    org_id: str
    name: str = ""
    status: str
    content_hash: str
    checkpoint_id: str | None = None
    manifest: Mapping[str, Any]
    created_at: datetime
    last_used_at: datetime | None = None
    error: str | None = None
    public: bool | None = None


class PublishedView(WireModel):
    name: str
    public: bool
