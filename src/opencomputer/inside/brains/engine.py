"""What the brain's server needs of an engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from .requests import Json, TurnRequest

Message = Mapping[str, Json]
Say = Callable[[str, Message], Awaitable[None]]
"""Pass a native message on, with its kind. Waits while the other side does not take it."""

QUIESCENT = "quiescent"
AWAITING_INPUT = "awaiting_input"
ERROR = "error"


class EngineFailed(Exception):
    """The engine ended before it was done: the stream breaks off, which the platform takes for a crash."""


@dataclass(frozen=True)
class Done:
    """How a request ended. `error` is `{code, message}`, with reason ERROR."""

    reason: str
    error: Message | None = None


class Engine(Protocol):
    """One model loop. It runs one request at a time."""

    async def prepare(self) -> None:
        """Load what takes long, before the first request. Raises EngineFailed."""
        ...

    async def run(self, turn: TurnRequest, say: Say) -> Done:
        """Run one request. Raises EngineFailed.

        Cancelled: nobody wants the answer any more. Stop working on it, for good, before letting go."""
        ...

    async def close(self) -> None:
        """End it. Idempotent."""
        ...
