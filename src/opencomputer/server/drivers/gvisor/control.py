"""Speaking to a machine's kernel directly, where starting `runsc` for it would take longer than the work.

The kernel listens on the Unix socket that runsc itself uses. A call is one JSON object, its answer another
(gVisor's pkg/urpc); the three calls used here have been the same as long as runsc can save memory at all.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, Final

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.drivers.gvisor.config import MachineFolder

_DEADLINE_SECONDS = 20.0
_MAX_ANSWER_BYTES = 64 << 20
_TASK: Final = "kernel.(*Task).run("
_STOPPED_TASK: Final = "kernel.(*Task).doStop("


class ControlFailed(Exception):
    """The kernel could not be reached, refused, or did not answer in time. Whether it acted is not known."""


class Control:
    """The kernel of one machine."""

    def __init__(self, machine_id: MachineId, folder: MachineFolder) -> None:
        self._id = machine_id
        self._folder = folder

    async def pause(self) -> None:
        """Stop the machine's tasks, and return when they have stopped. The kernel goes on answering."""
        await self._call("containerManager.Pause")

    async def resume(self) -> None:
        """Undo `pause`. Only for a machine that is paused: the kernel of another ends."""
        await self._call("containerManager.Resume")

    async def paused(self) -> bool:
        """Whether the machine is paused, by what each of its tasks is doing: nothing else tells.

        The first process is never stopped otherwise, so they are never all stopped but for that.
        """
        stacks = str(await self._call("debug.Stacks"))
        tasks = [stack for stack in stacks.split("\n\n") if _TASK in stack]
        return bool(tasks) and all(_STOPPED_TASK in task for task in tasks)

    async def _call(self, method: str) -> Any:
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                answer = await self._exchange({"method": method, "arg": None})
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise ControlFailed(f"{method}: {type(error).__name__}: {error}") from error
        if not answer.get("success"):
            raise ControlFailed(f"{method}: {answer.get('err')}")
        return answer.get("result")

    async def _exchange(self, call: dict[str, Any]) -> dict[str, Any]:
        # By way of its folder: the path as a whole may be longer than the address of a socket can be.
        path = await asyncio.to_thread(self._socket_path)
        folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            reader, writer = await asyncio.open_unix_connection(
                f"/proc/self/fd/{folder}/{os.path.basename(path)}", limit=_MAX_ANSWER_BYTES
            )
        finally:
            os.close(folder)
        try:
            writer.write(json.dumps(call).encode())
            await writer.drain()
            return await _read_object(reader)
        finally:
            writer.close()

    def _socket_path(self) -> str:
        state = next(self._folder.state.glob(f"{self._id}*.state"), None)
        if state is None:
            raise FileNotFoundError(f"runsc knows nothing of {self._id}")
        return str(json.loads(state.read_text())["sandbox"]["controlSocketPath"])


async def _read_object(reader: asyncio.StreamReader) -> dict[str, Any]:
    """One JSON object; nothing marks its end but itself."""
    received = bytearray()
    while len(received) <= _MAX_ANSWER_BYTES:
        piece = await reader.read(1 << 16)
        if not piece:
            raise EOFError("the connection ended within an answer")
        received += piece
        if piece.rstrip().endswith(b"}"):
            try:
                return json.loads(received)
            except ValueError:
                continue
    raise ValueError("the answer is too large")
