"""Writing down what a running machine is, in the two parts from which another can go on.

The memory folder holds runsc's own files and `birth.json`, the layer folder a copy of the writable layer of
the same instant. The memory speaks of files by their paths, so a machine that starts from both finds them in
its layers and needs no copy of its own.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.contracts.driver import LAYER, MEMORY, MachineId, Still
from opencomputer.server.domain.errors import MachineLost, SnapshotRefused, StartFailed
from opencomputer.server.drivers.gvisor.bundle import Birth
from opencomputer.server.drivers.gvisor.disk import CopyFailed
from opencomputer.server.drivers.gvisor.failure import Failure, FailureKind, classify
from opencomputer.server.drivers.gvisor.node import Node
from opencomputer.server.host.subprocesses import CommandTimedOut, run_async
from opencomputer.server.host.tasks import finish

_BIRTH = "birth.json"
_SHORT_DEADLINE_SECONDS = 20.0
_WRITE_DEADLINE_SECONDS = 300.0
_RETRY_FOR_SECONDS = 2.0
_RETRY_PAUSE_SECONDS = 0.15


@dataclass(frozen=True)
class Saving:
    """What is wanted of one saving: the arguments of `Running.save`."""

    target: Path
    memory: bool = True
    go_on: bool = True
    still: Still = nullcontext


async def save_machine(node: Node, machine_id: MachineId, saving: Saving) -> None:
    """Write a machine down in `saving.target`, which appears only when it is complete.

    Raises SnapshotRefused, MachineLost; the machine then goes on whatever was wanted.
    """
    target = saving.target
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    saved = False
    try:
        async with saving.still():
            await _save_patiently(node, machine_id, draft, saving)
        if saving.memory:
            await asyncio.to_thread(shutil.copy, node.folder(machine_id).birth, draft / MEMORY / _BIRTH)
        await asyncio.to_thread(_publish, draft, target)
        saved = True
    finally:
        try:
            if not (saved and not saving.go_on):
                await finish(resume_if_saving(node, machine_id))
        finally:
            await finish(asyncio.to_thread(shutil.rmtree, draft, True))


async def resume_if_saving(node: Node, machine_id: MachineId) -> None:
    """Let a machine go on that is paused, perhaps by an earlier server that was killed."""
    folder = node.folder(machine_id)
    if await asyncio.to_thread(folder.saving.exists):
        await asyncio.to_thread(node.group(machine_id).thaw)
        await _command(node.runsc.resume(machine_id, folder), _SHORT_DEADLINE_SECONDS)
        await asyncio.to_thread(folder.saving.unlink, missing_ok=True)


def read_birth(image: Path) -> Birth:
    """What was fixed about the machine of a memory image. Raises StartFailed when it is none."""
    try:
        return Birth.from_json((image / _BIRTH).read_text())
    except (OSError, ValueError) as error:
        raise StartFailed(reason=FailureKind.BAD_IMAGE.value, runtime=str(error)) from error


async def _save_patiently(node: Node, machine_id: MachineId, draft: Path, saving: Saving) -> None:
    """Try again for a moment while the machine has a deleted file open: programs do that all the time."""
    end = time.monotonic() + _RETRY_FOR_SECONDS
    while True:
        failure = await _save_once(node, machine_id, draft, saving)
        if failure is None:
            return
        if failure.kind is FailureKind.GONE:
            raise MachineLost
        if failure.kind is not FailureKind.DELETED_FILE or time.monotonic() > end:
            raise SnapshotRefused(reason=failure.kind.value, runtime=failure.message, path=failure.path)
        await asyncio.sleep(_RETRY_PAUSE_SECONDS)


async def _save_once(node: Node, machine_id: MachineId, draft: Path, saving: Saving) -> Failure | None:
    """One attempt. The machine is paused from before the memory until after the copy of its files.

    The memory comes first: saving it also writes back what the machine's kernel had not written yet.
    """
    folder = node.folder(machine_id)
    await asyncio.to_thread(folder.saving.touch)
    done = False
    try:
        failure = await _command(node.runsc.pause(machine_id, folder), _SHORT_DEADLINE_SECONDS)
        failure = failure or await _write(node, machine_id, draft, memory=saving.memory)
        done = failure is None
        return failure
    finally:
        # Also when pausing seems to have failed or the caller gave up: nobody else would.
        if saving.go_on or not done:
            await finish(resume_if_saving(node, machine_id))


async def _write(node: Node, machine_id: MachineId, draft: Path, *, memory: bool) -> Failure | None:
    if memory:
        await asyncio.to_thread(_empty, draft / MEMORY)
        argv = node.runsc.checkpoint(machine_id, node.folder(machine_id), draft / MEMORY)
        failure = await _command(argv, _WRITE_DEADLINE_SECONDS)
        if failure is not None:
            return failure
    await asyncio.to_thread(_empty, draft / LAYER)
    return await _copy_layer(node, machine_id, draft / LAYER)


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
