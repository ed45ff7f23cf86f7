"""What machines are made from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class TemplateLayers:
    """A template that is ready: immutable layers, bottom first, and the hash of what made them.

    `environment` and `workdir` are what its sandboxes have by default; None means the user's home.
    """

    name: str
    hash: str
    layers: tuple[Path, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    workdir: str | None = None


class TemplateCatalogue(Protocol):
    """The templates of this host. All of it blocks for a moment; `prune` for as long as removing takes."""

    def list(self) -> Sequence[TemplateLayers]:
        """The current build of every template."""
        ...

    def get(self, name: str) -> TemplateLayers | None:
        """The build that new sandboxes start from."""
        ...

    def find(self, name: str, hash: str) -> TemplateLayers | None:
        """Exactly this build, current or not: what a sandbox or snapshot was made from."""
        ...

    def prune(self, wanted_hashes: Collection[str]) -> Sequence[str]:
        """Say which builds are wanted, and remove those nobody wants. Returns the hashes of what is gone.

        Nobody: no node that shares these templates. A current build always stays. Nothing of a template is
        removed within ten minutes after its current build changed, and nothing at all while templates are
        being built: who is just starting from an old build may not have said so yet. So this must be called
        every few minutes, and once before a node starts anything.
        """
        ...
