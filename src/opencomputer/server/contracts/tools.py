"""The tools a brain may use, served for exactly one request of it (agent-sessions.md section 5.6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from opencomputer.server.contracts.runtimes import Hands, TurnWriter
from opencomputer.server.domain.sessions.session import Session, Turn
from opencomputer.wire.ids import EventId


@dataclass(frozen=True)
class ToolScope:
    """What the tools of one turn work with. `hands` is asked when the first tool needs them."""

    session: Session
    turn: Turn
    writer: TurnWriter
    hands: Callable[[], Awaitable[Hands]]
    deadline_at: datetime


class OpenTools(Protocol):
    """Tools while they are served."""

    @property
    def url(self) -> str:
        """Where the brain reaches them, from inside its machine."""
        ...

    @property
    def asked(self) -> bool:
        """`ask` was used: the turn ends and waits for an answer."""
        ...

    @property
    def result_event_id(self) -> EventId | None:
        """The last message to the user."""
        ...


class ToolDesk(Protocol):
    def open(self, scope: ToolScope) -> AbstractAsyncContextManager[OpenTools]:
        """Serve the tools until left. Calls in flight are given up then, and noted as unknown."""
        ...
