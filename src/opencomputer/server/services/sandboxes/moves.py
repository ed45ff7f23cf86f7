"""Changes of state whose answer may be lost."""

from __future__ import annotations

from collections.abc import Awaitable

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.stores import SandboxFields, SandboxStore
from opencomputer.server.domain.sandbox import Sandbox, SandboxState, StopReason


async def settled(
    move: Awaitable[bool], sandboxes: SandboxStore, sandbox: Sandbox, after: SandboxState
) -> bool:
    """The outcome of a move of a sandbox that nobody else moves to the same state.

    A store that fails may have made it all the same: then what it says afterwards decides. Who took a failure
    for a refusal would remove what the sandbox stands on by now.
    """
    try:
        return await move
    except Exception:
        row = await sandboxes.get(sandbox.org_id, sandbox.id)
        if row is not None and row.state is after:
            return True
        raise


class Moves:
    """Moves sandboxes from one state to another now, and knows afterwards whether they did."""

    def __init__(self, sandboxes: SandboxStore, clock: Clock) -> None:
        self._sandboxes = sandboxes
        self._clock = clock

    async def move(
        self,
        sandbox: Sandbox,
        before: SandboxState,
        after: SandboxState,
        *,
        reason: StopReason | None = None,
        fields: SandboxFields | None = None,
    ) -> bool:
        """As `SandboxStore.move`, `settled`."""
        now = self._clock.now()
        move = self._sandboxes.move(sandbox.id, before, after, at=now, reason=reason, fields=fields)
        return await settled(move, self._sandboxes, sandbox, after)
