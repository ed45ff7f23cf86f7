"""Memory images: writing one of a running machine, and starting from one.

An image is a folder: `memory/` as runsc wrote it, `birth.json`, and `upper/`, a copy of the writable layer of
the same instant. A restored machine gets the copy as its own writable layer, because its memory speaks of
those files.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.domain.errors import MachineLost, SnapshotRefused, StartFailed
from opencomputer.server.drivers.gvisor.bundle import Birth
from opencomputer.server.drivers.gvisor.disk import CopyFailed, copy_files
from opencomputer.server.drivers.gvisor.failure import Failure, FailureKind, classify
from opencomputer.server.drivers.gvisor.node import Node
from opencomputer.server.drivers.gvisor.runsc import MEMORY_FOLDER
from opencomputer.server.host.subprocesses import CommandTimedOut, run_async
from opencomputer.server.host.tasks import finish

_UPPER = "upper"
_BIRTH = "birth.json"
_SHORT_DEADLINE_SECONDS = 20.0
_WRITE_DEADLINE_SECONDS = 300.0
_RETRY_FOR_SECONDS = 2.0
_RETRY_PAUSE_SECONDS = 0.15


async def save_machine(node: Node, machine_id: MachineId, target: Path) -> None:
    """Write an image to `target`, which appears only when it is complete. The machine goes on running.

    Raises SnapshotRefused, MachineLost.
    """
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        await _save_patiently(node, machine_id, draft)
        await asyncio.to_thread(shutil.copy, node.folder(machine_id).birth, draft / _BIRTH)
        await asyncio.to_thread(_publish, draft, target)
    finally:
        await finish(asyncio.to_thread(shutil.rmtree, draft, True))


def unpack_writable_layer(image: Path, upper: Path) -> None:
    """Give a machine that will be restored from `image` the files its memory knows. Blocks."""
    source = image / _UPPER
    if any(source.iterdir()):
        copy_files(source, upper)


async def resume_if_saving(node: Node, machine_id: MachineId) -> None:
    """Let a machine go on that an earlier server had paused when it was killed."""
    folder = node.folder(machine_id)
    if await asyncio.to_thread(folder.saving.exists):
        await asyncio.to_thread(node.group(machine_id).thaw)
        await _command(node.runsc.resume(machine_id, folder), _SHORT_DEADLINE_SECONDS)
        await asyncio.to_thread(folder.saving.unlink, missing_ok=True)


def read_birth(image: Path) -> Birth:
    """What was fixed about the machine of an image. Raises StartFailed when it is no image."""
    try:
        return Birth.from_json((image / _BIRTH).read_text())
    except (OSError, ValueError) as error:
        raise StartFailed(reason=FailureKind.BAD_IMAGE.value, runtime=str(error)) from error


async def _save_patiently(node: Node, machine_id: MachineId, draft: Path) -> None:
    """Try again for a moment while the machine has a deleted file open: programs do that all the time."""
    end = time.monotonic() + _RETRY_FOR_SECONDS
    while True:
        failure = await _save_once(node, machine_id, draft)
        if failure is None:
            return
        if failure.kind is FailureKind.GONE:
            raise MachineLost
        if failure.kind is not FailureKind.DELETED_FILE or time.monotonic() > end:
            raise SnapshotRefused(reason=failure.kind.value, runtime=failure.message, path=failure.path)
        await asyncio.sleep(_RETRY_PAUSE_SECONDS)


async def _save_once(node: Node, machine_id: MachineId, draft: Path) -> Failure | None:
    """One attempt. The machine is paused from before the memory until after the copy of its files.

    The memory comes first: saving it also writes back what the machine's kernel had not written yet.
    """
    folder = node.folder(machine_id)
    await asyncio.to_thread(folder.saving.touch)
    try:
        failure = await _command(node.runsc.pause(machine_id, folder), _SHORT_DEADLINE_SECONDS)
        return failure or await _write(node, machine_id, draft)
    finally:
        # Also when pausing seems to have failed or the caller gave up: nobody else would.
        await finish(resume_if_saving(node, machine_id))


async def _write(node: Node, machine_id: MachineId, draft: Path) -> Failure | None:
    memory = draft / MEMORY_FOLDER
    await asyncio.to_thread(_empty, memory)
    argv = node.runsc.checkpoint(machine_id, node.folder(machine_id), memory)
    failure = await _command(argv, _WRITE_DEADLINE_SECONDS)
    if failure is not None:
        return failure
    await asyncio.to_thread(_empty, draft / _UPPER)
    return await _copy_layer(node, machine_id, draft / _UPPER)


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


async def _copy_layer(node: Node, machine_id: MachineId, target: Path) -> Failure | None:
    try:
        await finish(node.disks.copy_upper(node.folder(machine_id), target))
    except (CopyFailed, CommandTimedOut, OSError) as error:
        return Failure(FailureKind.OTHER, f"the writable layer could not be copied: {error}")
    return None


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


def _publish(draft: Path, target: Path) -> None:
    if target.exists():
        raise FileExistsError(str(target))
    draft.rename(target)
