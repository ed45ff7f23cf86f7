"""The time of day, for ages."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """This moment."""
    return datetime.now(UTC)
