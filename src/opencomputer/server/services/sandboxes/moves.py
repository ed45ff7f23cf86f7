"""Changes of state whose answer may be lost."""

from __future__ import annotations

from collections.abc import Awaitable

from opencomputer.server.contracts.stores import SandboxStore
from opencomputer.server.domain.sandbox import Sandbox, SandboxState


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
