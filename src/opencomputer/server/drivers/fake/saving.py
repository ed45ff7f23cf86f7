"""What a fake machine is saved as: its home folder as a layer, and a note in place of its memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from opencomputer.server.contracts.driver import LAYER, MEMORY
from opencomputer.server.domain.errors import SnapshotRefused

HOME = "home"
_HOME_IN_LAYER = "home/sandbox"
_IMAGE_FILE = "image"
_IMAGE = "The memory of a fake machine.\n"
_OPAQUE = "trusted.overlay.opaque"


def write_saved(machine: Path, target: Path, *, memory: bool) -> None:
    """Save what is in a machine's folder. `target` appears when it is complete. Blocks."""
    if target.exists():
        raise FileExistsError(str(target))
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        home = draft / LAYER / _HOME_IN_LAYER
        home.parent.mkdir(parents=True)
        shutil.copytree(machine / HOME, home, symlinks=True)
        with contextlib.suppress(OSError):
            # It is the whole home: nothing that layers below have there shines through.
            os.setxattr(home, _OPAQUE, b"y")
        if memory:
            (draft / MEMORY).mkdir()
            (draft / MEMORY / _IMAGE_FILE).write_text(_IMAGE)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_memory(memory_image: Path) -> None:
    """Raises SnapshotRefused when it is no memory of a fake machine."""
    file = memory_image / _IMAGE_FILE
    if not file.is_file() or file.read_text(errors="replace") != _IMAGE:
        raise SnapshotRefused("There is no such memory image.", reason="bad_image")


def fill_home(machine: Path, layers: Sequence[Path]) -> None:
    """Give a new machine the home of the topmost layer that has one. Blocks."""
    for layer in reversed(layers):
        if (layer / _HOME_IN_LAYER).is_dir():
            shutil.copytree(layer / _HOME_IN_LAYER, machine / HOME, symlinks=True)
            return
    (machine / HOME).mkdir()
