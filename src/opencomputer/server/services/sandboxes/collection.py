"""Removing layers, memory images and template builds that nothing needs any more."""

from __future__ import annotations

import asyncio

import structlog

from opencomputer.server.contracts.artefacts import Artefacts
from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.stores import SnapshotStore
from opencomputer.server.contracts.templates import TemplateCatalogue
from opencomputer.server.services.repeating import repeat
from opencomputer.server.services.sandboxes.golden import GoldenImages

_log = structlog.get_logger(__name__)

_PAUSE_SECONDS = 300.0


class Collection:
    """Mark and sweep: what rows name stays. What is being made is too young to go (`Artefacts.collect`)."""

    def __init__(
        self,
        artefacts: Artefacts,
        snapshots: SnapshotStore,
        golden: GoldenImages,
        templates: TemplateCatalogue,
        clock: Clock,
    ) -> None:
        self._artefacts = artefacts
        self._snapshots = snapshots
        self._golden = golden
        self._templates = templates
        self._clock = clock

    async def keep(self) -> None:
        """Sweep until cancelled."""
        await repeat(
            self.sweep,
            self._clock,
            pause_seconds=_PAUSE_SECONDS,
            complaint="unused layers were not removed; the next sweep tries again",
            at_once=True,
        )

    async def sweep(self) -> int:
        wanted = await self._snapshots.wanted()
        layers = wanted.layers | await self._golden.layers()
        removed = await self._artefacts.collect(layers, wanted.memories)
        if removed:
            _log.info("removed layers and memory images that nothing needs", count=removed)
        pruned = await asyncio.to_thread(self._templates.prune, wanted.template_hashes)
        if pruned:
            _log.info("removed template builds that nothing needs", hashes=pruned)
        return removed
