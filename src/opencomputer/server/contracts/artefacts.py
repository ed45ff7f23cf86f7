"""Where layers and memory images are kept: durable, immutable, addressed by their content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from opencomputer.server.domain.layers import Change, ChangeKind, LayerId, MemoryId

__all__ = ["Artefacts", "Change", "ChangeKind", "KeptLayer", "KeptMemory"]


@dataclass(frozen=True)
class KeptLayer:
    id: LayerId
    size_bytes: int


@dataclass(frozen=True)
class KeptMemory:
    id: MemoryId
    size_bytes: int


class Artefacts(Protocol):
    """Keeps what a driver saved. Callers hold ids; folders are only borrowed.

    A folder given out stays as long as the artefact is wanted (`collect`). Everything appears complete or
    not at all, whenever the server is killed. Raises ArtefactMissing and ArtefactDamaged for what the store
    has not, or not as it was written; HostDiskFull when the host has no room.
    """

    async def new_draft(self) -> Path:
        """A path where nothing exists yet, for `Machine.save`. On the file system of the artefacts."""
        ...

    async def discard_draft(self, draft: Path) -> None: ...

    async def keep_layer(self, folder: Path) -> KeptLayer:
        """Keep a saved writable layer. Takes the folder: it is not there any more afterwards.

        A layer that is kept already is not written again.
        """
        ...

    async def keep_memory(self, folder: Path) -> KeptMemory:
        """Keep a saved memory image. Takes the folder."""
        ...

    async def layer(self, layer_id: LayerId) -> Path:
        """A folder with the layer's content, for an overlay's lower directory. Never to be written to."""
        ...

    async def memory(self, memory_id: MemoryId) -> Path:
        """A folder for `MachineSpec.memory_image`. Verified."""
        ...

    async def merge(self, layers: Sequence[LayerId]) -> KeptLayer:
        """One layer that has the same effect as `layers`, bottom first. They stay what they are."""
        ...

    async def changes(
        self, base: Sequence[Path], before: Sequence[Path], after: Sequence[Path]
    ) -> Sequence[Change]:
        """What differs between the stacks base+before and base+after, by path in order.

        Reads only the layers in which the stacks differ, so the cost does not depend on the base's size.
        """
        ...

    async def collect(self, layers: frozenset[LayerId], memories: frozenset[MemoryId]) -> int:
        """Delete what is not named, except what was kept or asked for within the last minutes: its user may
        not have written down yet that it wants it. Returns how many artefacts went."""
        ...

    async def clear_drafts(self) -> None:
        """Remove drafts of earlier processes. For the start, before anything is saved."""
        ...

    async def free_bytes(self) -> int:
        """Room on the host for more."""
        ...
