"""Names of what snapshots are made of."""

from __future__ import annotations

from typing import NewType

LayerId = NewType("LayerId", str)
"""The SHA-256, in hex, of a layer's canonical archive."""

MemoryId = NewType("MemoryId", str)
"""The SHA-256, in hex, of what a memory image consists of."""
