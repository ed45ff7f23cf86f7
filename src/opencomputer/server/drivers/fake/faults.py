"""What a fake driver is told to do wrong."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass
class FakeFaults:
    """May be changed at any time by whoever holds it; the driver looks at it before each step.

    The steps are "start", "folder", "guest", "record", "freeze", "thaw", "save", "go_on", "set_egress",
    "stop", "adopt", "survey" and "discard".
    """

    fail_on: dict[str, Exception] = field(default_factory=dict[str, Exception])
    """Steps that raise."""
    hang_on: set[str] = field(default_factory=set[str])
    """Steps that never end."""
    die_after_seconds: float | None = None
    """Machines started from now on end by themselves."""
    mute: bool = False
    """Machines started from now on have a guest that accepts connections and says nothing."""

    async def before(self, step: str) -> None:
        if step in self.fail_on:
            raise self.fail_on[step]
        if step in self.hang_on:
            await asyncio.Event().wait()
