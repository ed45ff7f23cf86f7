"""Requests that carry an idempotency key: what comes again with the same key finds what it made before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from opencomputer.server.contracts.stores import SandboxStore
from opencomputer.server.domain.errors import IdempotencyMismatch, OperationInProgress
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.wire.ids import OrgId, SandboxId


class Creations:
    """The creates that are under way, and those that a key tells."""

    def __init__(self, sandboxes: SandboxStore) -> None:
        self._sandboxes = sandboxes
        self._under_way: dict[SandboxId, asyncio.Event] = {}

    @contextmanager
    def under_way(self, sandbox_id: SandboxId) -> Generator[None]:
        """Within this, whoever asks with the same key waits."""
        finished = self._under_way.setdefault(sandbox_id, asyncio.Event())
        try:
            yield
        finally:
            self._under_way.pop(sandbox_id, None)
            finished.set()

    async def of_key(self, org_id: OrgId, key: str | None, request_hash: str) -> Sandbox | None:
        """What an earlier request with this key made; waits for it when it is still under way.

        Raises IdempotencyMismatch when that was another request, and OperationInProgress when a process that
        is gone left it half made.
        """
        if key is None:
            return None
        while True:
            earlier = await self._sandboxes.by_idempotency_key(org_id, key)
            if earlier is None:
                return None
            if earlier.request_hash != request_hash:
                raise IdempotencyMismatch
            if earlier.state is not SandboxState.CREATING:
                return earlier
            finished = self._under_way.get(earlier.id)
            if finished is None:
                raise OperationInProgress("the create with this idempotency key is in progress")
            await finished.wait()


class Queues:
    """Requests with the same key, one after the other."""

    def __init__(self) -> None:
        self._locks: dict[tuple[OrgId, str], asyncio.Lock] = {}
        self._waiting: dict[tuple[OrgId, str], int] = {}

    @asynccontextmanager
    async def alone(self, org_id: OrgId, key: str) -> AsyncGenerator[None]:
        """Within this, no other request of this key is carried out."""
        mine = org_id, key
        lock = self._locks.setdefault(mine, asyncio.Lock())
        self._waiting[mine] = self._waiting.get(mine, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._waiting[mine] -= 1
            if not self._waiting[mine]:
                del self._locks[mine], self._waiting[mine]
