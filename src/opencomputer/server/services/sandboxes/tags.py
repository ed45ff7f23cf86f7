"""Tags of sandboxes: read, replaced, counted. Neither wakes a sandbox nor counts as a use of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.tags import TagStore
from opencomputer.server.domain.tags import TagKey, Tags
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle
from opencomputer.wire.ids import OrgId, SandboxId


class SandboxTags:
    """A stopped sandbox has its tags still, and they can be changed."""

    def __init__(self, store: TagStore, lifecycle: Lifecycle, clock: Clock) -> None:
        self._store = store
        self._lifecycle = lifecycle
        self._clock = clock

    async def get(self, org_id: OrgId, sandbox_id: SandboxId) -> Tags:
        """Raises NotFound when the organisation has no such sandbox."""
        await self._lifecycle.get(org_id, sandbox_id)
        return await self._store.get(sandbox_id)

    async def put(self, org_id: OrgId, sandbox_id: SandboxId, values: Mapping[str, str]) -> Tags:
        """Put these in the place of all that were there. Raises NotFound as `get`."""
        await self._lifecycle.get(org_id, sandbox_id)
        tags = Tags(values, self._clock.now())
        await self._store.put(org_id, sandbox_id, tags)
        return tags

    async def keys(self, org_id: OrgId) -> Sequence[TagKey]:
        """All keys in use, by name."""
        return await self._store.keys(org_id)
