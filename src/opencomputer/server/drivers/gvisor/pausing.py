"""Stopping a machine for a saving, and letting it go on: also when the server that stopped it was killed.

What is done to a machine is noted in its folder before it is done and until it is undone.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import structlog

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.drivers.gvisor.config import MachineFolder
from opencomputer.server.drivers.gvisor.control import Control, ControlFailed
from opencomputer.server.drivers.gvisor.failure import Failure, FailureKind
from opencomputer.server.drivers.gvisor.node import Node
from opencomputer.server.host.cgroups import NO_LIMIT, GroupStuck
from opencomputer.server.host.tasks import finish

_log = structlog.get_logger(__name__)

_PAUSED = "paused"
_FROZEN = "frozen"


async def pause(node: Node, machine_id: MachineId) -> Failure | None:
    """Stop the machine's tasks; its kernel goes on, with as much of the processor as it likes."""
    await asyncio.to_thread(_lift_cpu_limit, node, machine_id)
    try:
        await finish(_control(node, machine_id).pause())
    except ControlFailed as error:
        ended = isinstance(error.__cause__, (FileNotFoundError, ConnectionError, EOFError))
        return Failure(FailureKind.GONE if ended else FailureKind.OTHER, str(error))
    return None


async def freeze(node: Node, machine_id: MachineId) -> Failure | None:
    """Take the processor away: that works with a kernel that answers nobody, too.

    Not for saving memory: programs of a machine that was frozen right behind its checkpoint were seen to
    crash.
    """
    await asyncio.to_thread(_write, node.folder(machine_id), _Mark(_FROZEN))
    try:
        await finish(asyncio.to_thread(node.group(machine_id).freeze))
    except GroupStuck as error:
        return Failure(FailureKind.OTHER, str(error))
    return None


async def go_on(node: Node, machine_id: MachineId) -> None:
    """Let a machine go on that was stopped, perhaps by an earlier server. Idempotent."""
    folder, group = node.folder(machine_id), node.group(machine_id)
    mark = await asyncio.to_thread(_read, folder)
    if mark is None:
        return
    await asyncio.to_thread(group.thaw)
    try:
        if mark.how != _FROZEN:
            await _resume(_control(node, machine_id))
    except ControlFailed as error:
        # It has ended, or its kernel is stuck: that shows by its guest's silence. The note stays.
        _log.warning("a paused machine could not be resumed", machine=machine_id, error=str(error))
    else:
        await asyncio.to_thread(folder.saving.unlink, missing_ok=True)
    finally:
        if mark.cpu_limit:
            with suppress(FileNotFoundError):  # the machine has been removed meanwhile
                await asyncio.to_thread(group.set_cpu_limit, mark.cpu_limit)


async def _resume(control: Control) -> None:
    # The note was made before the machine was paused, and a kernel that is resumed in vain ends.
    if await control.paused():
        await control.resume()


def _control(node: Node, machine_id: MachineId) -> Control:
    return Control(machine_id, node.folder(machine_id))


@dataclass(frozen=True)
class _Mark:
    """What is noted about a machine. `cpu_limit` is the one to put back; empty: none was taken away."""

    how: str
    cpu_limit: str = ""


def _lift_cpu_limit(node: Node, machine_id: MachineId) -> None:
    """Only the machine's kernel works until it goes on, for us, and everybody waits for it."""
    folder, group = node.folder(machine_id), node.group(machine_id)
    mark = _read(folder)
    _write(folder, _Mark(_PAUSED, (mark and mark.cpu_limit) or group.cpu_limit()))
    group.set_cpu_limit(NO_LIMIT)


def _read(folder: MachineFolder) -> _Mark | None:
    try:
        words = folder.saving.read_text().split()
    except FileNotFoundError:
        return None
    # Empty: the server was killed while it wrote, and had not done anything to the machine yet.
    return _Mark(*words) if words else _Mark(_PAUSED)


def _write(folder: MachineFolder, mark: _Mark) -> None:
    folder.saving.write_text(f"{mark.how} {mark.cpu_limit}")
