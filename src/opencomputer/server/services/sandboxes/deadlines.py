"""When a sandbox that nobody uses goes to sleep."""

from __future__ import annotations

from datetime import datetime, timedelta

from opencomputer.server.domain.sandbox import Sandbox


def deadline(now: datetime, timeout_seconds: int) -> datetime | None:
    """When a sandbox that was used just now goes to sleep."""
    return now + timedelta(seconds=timeout_seconds) if timeout_seconds else None


def last_use(sandbox: Sandbox, now: datetime) -> datetime:
    """When a sandbox of an earlier process was used last, as far as its deadline tells."""
    if sandbox.due_at is None:
        return now
    return min(now, sandbox.due_at - timedelta(seconds=sandbox.timeout_seconds))
