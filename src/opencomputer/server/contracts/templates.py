"""What machines are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class TemplateLayers:
    """A template that is ready: immutable layers, bottom first, and the hash of what made them."""

    name: str
    hash: str
    layers: tuple[Path, ...]


class TemplateCatalogue(Protocol):
    def list(self) -> Sequence[TemplateLayers]: ...

    def get(self, name: str) -> TemplateLayers | None: ...
