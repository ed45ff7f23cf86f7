"""Writing down what a running machine is, in the two parts from which another can go on.

The memory folder holds runsc's own files and `birth.json`, the layer folder a copy of the writable layer of
the same instant. The memory speaks of files by their paths, so a machine that starts from both finds them in
its layers and needs no copy of its own.

Most of the layer is copied before the machine is paused. Then the memory comes first: saving it also writes
back what the machine's kernel had not written yet. The rest of the layer follows before the machine goes on.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.contracts.driver import LAYER, MEMORY, MachineId, Still, Stillness, not_still
from opencomputer.server.domain.errors import HostDiskFull, MachineLost, SnapshotRefused, StartFailed
from opencomputer.server.drivers.gvisor.bundle import Birth
from opencomputer.server.drivers.gvisor.disk import Fill
from opencomputer.server.drivers.gvisor.failure import Failure, FailureKind, classify
from opencomputer.server.drivers.gvisor.mirror import CopyFailed, Mirror
from opencomputer.server.drivers.gvisor.node import Node
from opencomputer.server.drivers.gvisor.pausing import freeze, go_on, pause
from opencomputer.server.host.page_cache import takes_direct_io
from opencomputer.server.host.subprocesses import CommandTimedOut, run_async
from opencomputer.server.host.tasks import finish

_BIRTH = "birth.json"
_WRITE_DEADLINE_SECONDS = 300.0
_RETRY_FOR_SECONDS = 2.0
_RETRY_PAUSE_SECONDS = 0.15
_FULL_PERCENT = 95.0
_SPARE_BYTES = 64 << 20
_FEW_BYTES = 4 << 20
_FEW_FILES = 200
_MOST_FILES = 400_000


@dataclass(frozen=True)
class Saving:
    """What is wanted of one saving: the arguments of `Running.save`."""

    target: Path
    memory: bool = True
    go_on: bool = True
    still: Still = not_still


async def save_machine(node: Node, machine_id: MachineId, saving: Saving) -> None:
    """Write a machine down in `saving.target`, which appears only when it is complete.

    Raises SnapshotRefused, HostDiskFull, MachineLost; the machine then goes on whatever was wanted.
    """
    target = saving.target
    if target.exists():
        raise FileExistsError(str(target))
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    saved = False
    try:
        await _Attempts(node, machine_id, saving, draft).save()
        if saving.memory:
            await asyncio.to_thread(shutil.copy, node.folder(machine_id).birth, draft / MEMORY / _BIRTH)
        await asyncio.to_thread(draft.rename, target)
        saved = True
    finally:
        try:
            if not (saved and not saving.go_on):
                await finish(go_on(node, machine_id))
        finally:
            await finish(asyncio.to_thread(shutil.rmtree, draft, True))


def read_birth(image: Path) -> Birth:
    """What was fixed about the machine of a memory image. Raises StartFailed when it is none."""
    try:
        return Birth.from_json((image / _BIRTH).read_text())
    except (OSError, ValueError) as error:
        raise StartFailed(reason=FailureKind.BAD_IMAGE.value, runtime=str(error)) from error


class _Attempts:
    """The attempts to save one machine into `draft`."""

    def __init__(self, node: Node, machine_id: MachineId, saving: Saving, draft: Path) -> None:
        self._node = node
        self._id = machine_id
        self._saving = saving
        self._folder = node.folder(machine_id)
        self._memory = draft / MEMORY
        self._layer = draft / LAYER

    async def save(self) -> None:
        """Try again for a moment while the machine has a deleted file open: programs do that all the time."""
        fill = await self._node.disks.fill(self._folder)
        await asyncio.to_thread(self._check_room, fill)
        end = time.monotonic() + _RETRY_FOR_SECONDS
        while True:
            mirror = await self._copy_ahead(fill)
            failure = await self._try(mirror)
            if failure is None:
                return
            if failure.kind is not FailureKind.DELETED_FILE or time.monotonic() > end:
                raise _error(failure)
            await asyncio.sleep(_RETRY_PAUSE_SECONDS)

    def _check_room(self, fill: Fill | None) -> None:
        """Refuse in time what would fail half-way, the machine's own flushing included."""
        if fill is not None and fill.percent >= _FULL_PERCENT:
            raise SnapshotRefused(
                f"The sandbox's disk is {fill.percent:.0f} % full; free some space first.", reason="disk_full"
            )
        needed = _SPARE_BYTES + (fill.used_bytes if fill else 0)
        if self._saving.memory:
            needed += self._node.group(self._id).usage().memory_bytes
        host = os.statvfs(self._saving.target.parent)
        if host.f_bavail * host.f_frsize < needed:
            raise HostDiskFull(needed_bytes=needed, free_bytes=host.f_bavail * host.f_frsize)

    async def _copy_ahead(self, fill: Fill | None) -> Mirror:
        """What is small is copied at once, and so is what nobody waits for: a machine not to go on."""
        await asyncio.to_thread(_empty, self._layer)
        disks = self._node.disks
        small = fill is not None and fill.used_bytes < _FEW_BYTES and fill.files < _FEW_FILES
        huge = fill is not None and fill.files > _MOST_FILES
        if small or huge or not self._saving.go_on:
            return disks.mirror(self._folder, self._layer)
        return await disks.copy_ahead(self._folder, self._layer)

    async def _try(self, mirror: Mirror) -> Failure | None:
        async with self._saving.still() as stillness:
            done = False
            try:
                if self._saving.memory:
                    failure = await pause(self._node, self._id) or await self._write_memory(stillness)
                else:
                    failure = await freeze(self._node, self._id)
                failure = failure or await self._complete(mirror)
                done = failure is None
                return failure
            finally:
                # Also when pausing seems to have failed or the caller gave up: nobody else would.
                if self._saving.go_on or not done:
                    await finish(go_on(self._node, self._id))

    async def _write_memory(self, stillness: Stillness) -> Failure | None:
        """Twice if the first writing cuts connections: it does that in the middle of its work.

        What is written then contradicts itself about them. In a copy, epoll reported such a socket for ever,
        also after it was closed: programs spun, and some (Bun) crashed. When it is written again the cuts
        are complete.
        """
        failure = await self._write_memory_once()
        if failure is None and stillness.connected and not self._node.build.keeps_connections:
            return await self._write_memory_once()
        return failure

    async def _write_memory_once(self) -> Failure | None:
        await asyncio.to_thread(_empty, self._memory)
        # Fresh memory of the host to keep it in can cost more time than the disk takes.
        direct = await asyncio.to_thread(takes_direct_io, self._memory)
        argv = self._node.runsc.checkpoint(self._id, self._folder, self._memory, direct=direct)
        return await _command(argv, _WRITE_DEADLINE_SECONDS)

    async def _complete(self, mirror: Mirror) -> Failure | None:
        try:
            await self._node.disks.complete(self._folder, mirror)
        except (CopyFailed, CommandTimedOut, OSError) as error:
            said = classify(str(error))
            kind = said.kind if said.kind is FailureKind.NO_SPACE else FailureKind.OTHER
            return Failure(kind, f"the writable layer could not be copied: {error}")
        return None


def _error(failure: Failure) -> MachineLost | HostDiskFull | SnapshotRefused:
    if failure.kind is FailureKind.GONE:
        return MachineLost()
    if failure.kind is FailureKind.NO_SPACE:
        return HostDiskFull(runtime=failure.message)
    message = None
    if failure.kind is FailureKind.DELETED_FILE and failure.path is not None:
        message = f"{failure.path} is open but deleted, which cannot be saved."
    return SnapshotRefused(message, reason=failure.kind.value, runtime=failure.message, path=failure.path)


async def _command(argv: list[str], deadline_seconds: float) -> Failure | None:
    """Run runsc to its end, cancelled or not.

    It notes on disk what it has done to the machine. Ended between the two, it would later refuse to resume
    a machine of which it does not know that it is paused.
    """
    try:
        done = await finish(run_async(argv, deadline_seconds=deadline_seconds))
    except CommandTimedOut as error:
        return Failure(FailureKind.OTHER, str(error))
    return None if done.exit_code == 0 else classify(done.output)


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
