"""Saving what a sandbox's machine is, durably."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import structlog

from opencomputer.server.contracts.artefacts import Artefacts
from opencomputer.server.contracts.driver import LAYER, MEMORY
from opencomputer.server.contracts.machine import Machine
from opencomputer.server.contracts.stores import SnapshotStore
from opencomputer.server.domain.errors import MachineLost, OpenComputerError
from opencomputer.server.domain.layers import LayerId
from opencomputer.server.domain.snapshot import SavedMemory
from opencomputer.server.services.sandboxes.boot import MemoryFolder
from opencomputer.server.services.sandboxes.provisioning import Provisioning
from opencomputer.wire.ids import SnapshotId

LONGEST_STACK = 12
"""Layers above a template; a taller stack is merged into one, because every look-up goes through all."""


_log = structlog.get_logger(__name__)


async def let_go_on(machine: Machine) -> None:
    """Undo a saving after which the machine stayed paused, whatever has become of the machine."""
    try:
        await machine.go_on()
    except MachineLost:
        return
    except Exception:
        _log.exception("a machine that was saved does not go on", machine=machine.id)


def reason_of(error: BaseException) -> str:
    """What may be told to the user about why an operation did not succeed."""
    return error.message if isinstance(error, OpenComputerError) else "the server failed; see its log"


@dataclass(frozen=True)
class Captured:
    """`layers` are all above the template. `size_bytes` is what the store holds for this."""

    layers: tuple[LayerId, ...]
    memory: SavedMemory | None
    size_bytes: int


async def write_ready(
    snapshots: SnapshotStore, snapshot_id: SnapshotId, captured: Captured, at: datetime
) -> None:
    """Say of a snapshot that everything of it is durable."""
    await snapshots.ready(
        snapshot_id, captured.layers, captured.memory, size_bytes=captured.size_bytes, at=at
    )


class Captures:
    """Everything that is saved of a running machine is saved here."""

    def __init__(self, artefacts: Artefacts, provisioning: Provisioning) -> None:
        self._artefacts = artefacts
        self._provisioning = provisioning

    @asynccontextmanager
    async def saving(
        self, machine: Machine, below: tuple[LayerId, ...], *, memory: bool, go_on: bool = True
    ) -> AsyncGenerator[Saving]:
        """Save the machine's state into a draft. When this is entered the machine has gone on, unless it was
        not to. `below` are the layers it was started on.

        Raises SnapshotRefused, MachineLost, HostDiskFull; the machine goes on then, whatever was asked.
        """
        token = self._provisioning.guest_token(machine)
        draft = await self._artefacts.new_draft()
        try:
            await machine.save(draft, memory=memory, go_on=go_on)
            yield Saving(self._artefacts, draft, below, token, self._provisioning.image_version)
        finally:
            await asyncio.shield(self._discard(draft))

    async def _discard(self, draft: Path) -> None:
        try:
            await self._artefacts.discard_draft(draft)
        except Exception:
            # It must not undo what was saved; the next start clears drafts.
            _log.exception("a draft could not be removed", draft=draft.name)


class Saving:
    """A saved state that is about to be kept."""

    def __init__(
        self,
        artefacts: Artefacts,
        draft: Path,
        below: tuple[LayerId, ...],
        guest_token: str,
        image_version: str,
    ) -> None:
        self._artefacts = artefacts
        self._draft = draft
        self._below = below
        self._guest_token = guest_token
        self._image_version = image_version

    @property
    def memory_folder(self) -> MemoryFolder:
        """The memory image where it was saved: for a machine that starts while this context is open."""
        return MemoryFolder(self._draft / MEMORY, self._guest_token)

    @property
    def layer_folder(self) -> Path:
        """The writable layer where it was saved, until it is kept."""
        return self._draft / LAYER

    async def keep_files(self) -> tuple[tuple[LayerId, ...], int]:
        """Make the files durable. Returns the layers above the template, and what they take."""
        kept = await self._artefacts.keep_layer(self._draft / LAYER)
        layers = (*self._below, kept.id)
        if len(layers) <= LONGEST_STACK:
            return layers, kept.size_bytes
        merged = await self._artefacts.merge(layers)
        return (merged.id,), merged.size_bytes

    async def keep(self, *, memory: bool) -> Captured:
        """Make everything durable."""
        layers, size = await self.keep_files()
        if not memory:
            return Captured(layers, None, size)
        kept = await self._artefacts.keep_memory(self._draft / MEMORY)
        saved = SavedMemory(kept.id, self._image_version, self._guest_token)
        return Captured(layers, saved, size + kept.size_bytes)
