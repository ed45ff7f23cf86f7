"""`…/files`: directory listings (sandbox-wire.md section 10). Contents travel as plain bytes."""

from __future__ import annotations

from opencomputer.wire.model import WireModel


class FileEntryView(WireModel):
    name: str
    is_directory: bool
    size: int
    path: str
