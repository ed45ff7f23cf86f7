"""`…/audit`: which connections a sandbox made and was refused. Not part of the published contract."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from opencomputer.wire.model import WireModel

MAX_AUDIT_PAGE = 1000
DEFAULT_AUDIT_PAGE = 100
JSON_LINES = "application/x-ndjson"


class AuditEvent(WireModel):
    """One decision. `lost`: how many decisions before this one could not be kept."""

    position: int
    at: datetime
    protocol: Literal["tls", "http", "tcp", "udp", "dns"]
    host: str
    port: int
    decision: Literal["allowed", "denied"]
    reason: str | None = None
    address: str | None = None
    intercepted: bool = False
    secrets: list[str]
    withheld: list[str]
    bytes_out: int = 0
    bytes_in: int = 0
    lost: int = 0


class AuditPage(WireModel):
    """Oldest first. `next` is what to ask for events `after`, now or when there are more."""

    events: list[AuditEvent]
    next: int
