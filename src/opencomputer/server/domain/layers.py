"""What snapshots are made of, and how two of them differ."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

LayerId = NewType("LayerId", str)
"""The SHA-256, in hex, of a layer's canonical archive."""

MemoryId = NewType("MemoryId", str)
"""The SHA-256, in hex, of what a memory image consists of."""


class ChangeKind(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"


@dataclass(frozen=True)
class Change:
    """One path that differs between two states of a disk. `size_bytes` is its new size, 0 when deleted."""

    path: str
    kind: ChangeKind
    size_bytes: int
    is_directory: bool = False
