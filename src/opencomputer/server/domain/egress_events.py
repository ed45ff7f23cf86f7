"""What was decided about a sandbox's connections, and how to ask for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from opencomputer.wire.ids import OrgId, SandboxId

Decision = Literal["allowed", "denied"]


@dataclass(frozen=True)
class EgressEvent:
    """One decision about one connection, or one question for a name. Never any content.

    `host` is the name as far as it is known, else the address as text. `reason` is a short stable word such
    as "allowlist", "blocked_address", "host_mismatch", "upstream_tls", "no_rules"; None when allowed.
    `secrets` are the names of those that were put in, `withheld` of those whose token went out as it was.
    Bytes count from the machine's side, at the end of the connection. `lost` is the log's own: how many
    decisions about this sandbox before this one it could not keep.
    """

    at: datetime
    org_id: OrgId
    sandbox_id: SandboxId
    protocol: Literal["tls", "http", "tcp", "udp", "dns"]
    host: str
    port: int
    decision: Decision
    reason: str | None = None
    address: str | None = None
    intercepted: bool = False
    secrets: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    bytes_out: int = 0
    bytes_in: int = 0
    lost: int = 0


@dataclass(frozen=True)
class RecordedEvent:
    """`position` grows along the log, and no two events of a node have the same."""

    position: int
    event: EgressEvent


@dataclass(frozen=True)
class EgressQuery:
    """`host` as in patterns: `*.example.com` is all below it."""

    org_id: OrgId
    sandbox_id: SandboxId
    after: int = 0
    limit: int = 100
    decision: Decision | None = None
    host: str | None = None
