"""Golden images that one test node has made, given to the next: making one takes longer than most tests.

A node uses one that was made from the same template by the same code, and removes any other. The first in
a run starts without, and so do those whose making of it is under test.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

_IMAGES = Path("golden")
_LAYERS = Path("artefacts/blobs/layers")


class GoldenSeed:
    """Keeps what the first node that offers something has, until the run is over."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None

    def take(self, data: Path) -> None:
        """Keep the images of a node that has stopped, if it has got one done."""
        if self._folder is not None or not any((data / _IMAGES).glob("[!.]*/golden.json")):
            return
        self._folder = TemporaryDirectory(prefix="golden-seed-")
        for part in (_IMAGES, _LAYERS):
            _copy(data / part, Path(self._folder.name) / part)
        for draft in (Path(self._folder.name) / _IMAGES).glob(".*"):
            shutil.rmtree(draft)

    def give(self, data: Path) -> None:
        """Put them where a node that has never started will look for its own."""
        if self._folder is not None and not data.exists():
            for part in (_IMAGES, _LAYERS):
                _copy(Path(self._folder.name) / part, data / part)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)
