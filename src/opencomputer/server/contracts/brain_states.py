"""Where the state of brains is kept between machines: opaque bytes that only a brain's machine unpacks."""

from __future__ import annotations

from collections.abc import Set
from typing import Protocol

from opencomputer.wire.ids import SessionId, TurnId


class BrainStates(Protocol):
    """One state for each turn that is kept. It appears as a whole or not at all, and is durable then."""

    async def put(self, session_id: SessionId, turn_id: TurnId, state: bytes) -> None:
        """Keep a state, in the place of an earlier one of the same turn. Raises HostDiskFull."""
        ...

    async def get(self, session_id: SessionId, turn_id: TurnId) -> bytes | None: ...

    async def turns(self, session_id: SessionId) -> frozenset[TurnId]:
        """Whose states are kept."""
        ...

    async def remove(self, session_id: SessionId, turn_ids: Set[TurnId]) -> None:
        """Forget states. Those that are not there are no error."""
        ...
