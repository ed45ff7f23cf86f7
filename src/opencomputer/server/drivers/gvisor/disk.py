"""A machine's writable layer: where it is, how large it may become, how it is copied."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from opencomputer.server.drivers.gvisor.config import MachineFolder
from opencomputer.server.drivers.gvisor.mirror import Mirror
from opencomputer.server.host.kernel import Unshare, unshare
from opencomputer.server.host.loop_disks import (
    SMALLEST_BYTES,
    DiskUnavailable,
    copy_disk,
    create_disk,
    mount_again,
    mount_disk,
    wait_until_released,
)
from opencomputer.server.host.mounts import detach_propagation
from opencomputer.server.host.tasks import finish
from opencomputer.server.host.threads import run_in_own_thread

_RELEASE_DEADLINE_SECONDS = 5.0
_PROBE_BYTES = 32 << 20
_BLANK_GENERATION = 1
"""Raise it when disks are made in another way: old blanks are not used any more."""


T = TypeVar("T")


@dataclass(frozen=True)
class Fill:
    used_bytes: int
    percent: float
    files: int


class Disks:
    """How this host keeps writable layers.

    `limited`: each is a disk of its own, mounted in the machine's mount namespace only. Otherwise it is
    an ordinary folder of the host, and nothing but the host's own space bounds it.
    """

    def __init__(self, blanks: Path | None) -> None:
        """`blanks` is a folder for empty disks, of which machines get copies; None means: not limited."""
        self._blanks = blanks

    @property
    def limited(self) -> bool:
        return self._blanks is not None

    def create(self, folder: MachineFolder, size_bytes: int) -> None:
        if self._blanks is not None:
            copy_disk(_blank(self._blanks, size_bytes), folder.disk_file)

    def mount(self, folder: MachineFolder) -> None:
        """Make `folder.upper` and `folder.work` appear. For a thread with a mount namespace of its own."""
        if self.limited:
            mount_disk(folder.disk_file, folder.device_node, folder.disk)
        folder.upper.mkdir(mode=0o755)
        folder.work.mkdir()

    def has_size(self, folder: MachineFolder, size_bytes: int) -> bool:
        """Whether a machine's layer may grow to just this size, or nothing bounds it anyway."""
        return not self.limited or folder.disk_file.stat().st_size == max(size_bytes, SMALLEST_BYTES)

    async def fill(self, folder: MachineFolder) -> Fill | None:
        """How full a running machine's disk is; None when nothing bounds it."""
        return await self._at_disk(folder, lambda: _measure(folder.disk)) if self.limited else None

    async def copy_ahead(self, folder: MachineFolder, target: Path) -> Mirror:
        """Begin to copy a running machine's writable layer to an empty folder. Raises OSError."""
        mirror = self.mirror(folder, target)
        await self._at_disk(folder, mirror.copy_ahead)
        return mirror

    async def complete(self, folder: MachineFolder, mirror: Mirror) -> None:
        """Make a copy exact while the machine is paused. Raises CopyFailed, OSError."""
        await self._at_disk(folder, mirror.complete)

    def mirror(self, folder: MachineFolder, target: Path) -> Mirror:
        """A copy of a machine's writable layer of which nothing has been done yet."""
        return Mirror(folder.upper, target, folder.disk / "clock")

    async def _at_disk(self, folder: MachineFolder, work: Callable[[], T]) -> T:
        def there() -> T:
            if self.limited:
                # The disk is mounted in the machine's namespace, which has no door. This is another
                # namespace, of this thread, and the same disk.
                unshare(Unshare.MOUNTS)
                detach_propagation()
                mount_again(folder.device_node, folder.disk)
            return work()

        return await finish(run_in_own_thread(there, name=f"disk-{folder.path.name}"))

    def wait_until_released(self, folder: MachineFolder) -> None:
        """After the last process of a machine: wait until the host has let go of its disk."""
        if self.limited and folder.disk_file.exists():
            wait_until_released(folder.disk_file, deadline_seconds=_RELEASE_DEADLINE_SECONDS)


def _blank(folder: Path, size_bytes: int) -> Path:
    """An empty disk of a size. It is created once, and appears only when it is complete."""
    blank = folder / f"{size_bytes}-{_BLANK_GENERATION}.ext4"
    if not blank.exists():
        draft = folder / f".{size_bytes}-{threading.get_ident()}"
        draft.unlink(missing_ok=True)
        create_disk(draft, size_bytes)
        draft.replace(blank)
    return blank


async def find_out_disks(data_dir: Path) -> Disks:
    """Try to use a disk of a fixed size, in the folder where they would be."""
    blanks = data_dir / "blank-disks"
    await asyncio.to_thread(blanks.mkdir, exist_ok=True)
    probe = await asyncio.to_thread(tempfile.mkdtemp, prefix=".probe-", dir=data_dir)
    try:
        # What is mounted goes with the thread.
        works = await run_in_own_thread(lambda: _try_disk(Path(probe)), name="probe-disks")
        return Disks(blanks if works else None)
    finally:
        await asyncio.to_thread(shutil.rmtree, probe, ignore_errors=True)


def _try_disk(folder: Path) -> bool:
    try:
        unshare(Unshare.MOUNTS)
        detach_propagation()
        (folder / "mounted").mkdir()
        create_disk(folder / "disk", _PROBE_BYTES)
        mount_disk(folder / "disk", folder / "device", folder / "mounted")
    except (DiskUnavailable, OSError):
        return False
    return True


def _measure(disk: Path) -> Fill:
    found = os.statvfs(disk)
    used = found.f_blocks - found.f_bfree
    return Fill(
        used_bytes=used * found.f_frsize,
        percent=100.0 * used / max(1, used + found.f_bavail),
        files=found.f_files - found.f_ffree,
    )


def begin_layer(upper: Path, layers: Sequence[Path]) -> None:
    """Make a new writable layer's own folder like that of the layer below: programs see it as the root."""
    if layers:
        below = layers[-1].stat()
        os.chown(upper, below.st_uid, below.st_gid)
        upper.chmod(below.st_mode & 0o7777)
