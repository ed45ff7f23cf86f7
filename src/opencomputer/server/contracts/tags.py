"""Where tags of sandboxes are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from opencomputer.server.domain.tags import TagKey, Tags
from opencomputer.wire.ids import OrgId, SandboxId


class TagStore(Protocol):
    async def get(self, sandbox_id: SandboxId) -> Tags:
        """Empty where none were ever put."""
        ...

    async def put(self, org_id: OrgId, sandbox_id: SandboxId, new: Tags) -> None:
        """In the place of all that were there, at once. Of two at the same time one stays, whole."""
        ...

    async def keys(self, org_id: OrgId) -> Sequence[TagKey]:
        """All that the organisation's sandboxes have, stopped ones included, in the order of the keys."""
        ...

    async def values(self, org_id: OrgId, key: str) -> Mapping[SandboxId, str]:
        """Of all the organisation's sandboxes that have this key, stopped ones included."""
        ...
