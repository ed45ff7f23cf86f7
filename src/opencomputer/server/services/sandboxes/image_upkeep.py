"""What is done about images besides requests: once after a start, and from time to time."""

from __future__ import annotations

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.services.repeating import repeat
from opencomputer.server.services.sandboxes.images import Images
from opencomputer.server.services.sandboxes.named_snapshots import NamedSnapshots

_log = structlog.get_logger(__name__)

_PAUSE_SECONDS = 3600.0


class ImageUpkeep:
    """Finishes or forgets what an earlier process left, and then removes what nobody uses any more."""

    def __init__(self, images: Images, snapshots: NamedSnapshots, clock: Clock) -> None:
        self._images = images
        self._snapshots = snapshots
        self._clock = clock
        self._made_at = clock.now()

    async def keep(self) -> None:
        """Until cancelled."""
        await self.recover()
        await repeat(
            self._images.remove_unused,
            self._clock,
            pause_seconds=_PAUSE_SECONDS,
            complaint="unused images were not removed; it will be tried again",
        )

    async def recover(self) -> None:
        """What this process has begun itself meanwhile is left alone."""
        try:
            await self._images.recover(self._made_at)
            await self._snapshots.recover(self._made_at)
        except Exception:
            _log.exception("what was left of image builds could not be cleared up")
