"""What keeps the logs of sandboxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from opencomputer.server.domain.log_lines import LogLine, LogQuery
from opencomputer.wire.ids import SandboxId


@dataclass(frozen=True)
class LogBatch:
    """Lines of one sandbox, and how far what they come from has been read; None: it is over."""

    lines: Sequence[LogLine] = ()
    positions: Mapping[str, int | None] = field(default_factory=dict[str, int | None])


class LogStore(Protocol):
    """Keeps the newest lines of each sandbox, within bounds; older ones are forgotten."""

    async def append(self, sandbox_id: SandboxId, batch: LogBatch) -> Sequence[LogLine]:
        """Write a batch down as a whole: after a crash all of it is there, or a beginning of its lines whose
        positions are older. Returns the lines as they are numbered."""
        ...

    async def find(self, sandbox_id: SandboxId, query: LogQuery) -> Sequence[LogLine]:
        """Oldest first; of more than the limit, the newest."""
        ...

    async def positions(self, sandbox_id: SandboxId) -> Mapping[str, int]:
        """How far has been read what is not over."""
        ...

    async def prune(self, before: datetime, *, keep_bytes: int) -> int:
        """Forget the logs of sandboxes to which nothing was added since `before`, and further ones, those
        longest without an addition first, until the rest is no larger. Returns how many."""
        ...
