"""`…/files/download-url` and `…/files/upload-url` (sandbox-wire.md section 10.1)."""

from __future__ import annotations

from datetime import datetime

from pydantic import StrictInt, StrictStr

from opencomputer.wire.model import WireModel


class SignFileUrl(WireModel):
    """`expires_in` is in seconds. What is not positive means the default; what is too long, the longest."""

    path: StrictStr = ""
    expires_in: StrictInt | None = None


class FileUrlView(WireModel):
    url: str
    expires_at: datetime
