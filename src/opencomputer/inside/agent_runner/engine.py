"""What the runner needs of an agent engine. `claude.py` has the real one, tests have their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from .commands import Configuration, Json

Message = Mapping[str, Json]


def begins_turn(message: Message) -> bool:
    """Whether this is the message with which an engine opens each turn."""
    return message.get("type") == "system" and message.get("subtype") == "init"


class EngineFailed(Exception):
    """The engine did not start, or it ended. `log` is what it last wrote to standard error."""

    def __init__(self, message: str, log: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.log = tuple(log)


class Engine(Protocol):
    """One running engine, which holds one conversation."""

    def messages(self) -> AsyncIterator[Message]:
        """The engine's messages as it wrote them, until it ends. Raises EngineFailed if it ends badly."""
        ...

    async def prompt(self, text: str) -> None:
        """Begin a turn; its last message is a `result`. Raises EngineFailed."""
        ...

    async def interrupt(self) -> None:
        """Stop the turn; a `result` follows. Raises EngineFailed."""
        ...

    async def adapt(self, old: Configuration, new: Configuration) -> bool:
        """Take over the differences if the running engine can; False if a new one is needed."""
        ...

    def drain_log(self) -> Sequence[str]:
        """What it wrote to standard error since the last call."""
        ...

    async def close(self) -> None:
        """End it. Idempotent."""
        ...


class Engines(Protocol):
    """Starts engines."""

    async def prepare(self) -> None:
        """Load what every start needs. Raises EngineFailed. Idempotent."""
        ...

    async def start(self, configuration: Configuration, resume: str | None) -> Engine:
        """Start one, with the conversation `resume` if given. Raises EngineFailed, also if it is unknown."""
        ...
