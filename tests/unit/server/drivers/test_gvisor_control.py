"""Speaking to a machine's kernel, here one that is scripted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.drivers.gvisor.config import MachineFolder
from opencomputer.server.drivers.gvisor.control import Control, ControlFailed

pytestmark = pytest.mark.anyio

_ID = MachineId("m000000000000001")
_STOPPED = "goroutine 7 [select]:\nkernel.(*Task).doStop(0xc0)\nkernel.(*Task).run(0xc0, 0x1)"
_WORKING = "goroutine 8 [select]:\nkernel.(*Task).block(0xc0)\nkernel.(*Task).run(0xc0, 0x2)"
_OTHER = "goroutine 1 [running]:\nmain.main()"


@asynccontextmanager
async def kernel(folder: Path, answer: Callable[[str], bytes]) -> AsyncGenerator[Control]:
    """A kernel that answers each method so; runsc's note of it lies where it does on a host."""
    machine = MachineFolder(folder / ("long" * 30) / _ID)
    machine.create()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call = json.loads(await reader.read(1 << 16))
        assert call["arg"] is None
        writer.write(answer(call["method"]))
        writer.close()

    (folder / "s").mkdir()
    server = await asyncio.start_unix_server(serve, folder / "s" / "runsc.sock")
    state = {"sandbox": {"controlSocketPath": str(folder / "s" / "runsc.sock")}}
    (machine.state / f"{_ID}_sandbox:{_ID}.state").write_text(json.dumps(state))
    async with server:
        yield Control(_ID, machine)


def success(result: object) -> bytes:
    return json.dumps({"success": True, "err": "", "result": result}).encode()


@pytest.mark.parametrize(
    ("stacks", "expected"),
    [
        ([_OTHER, _STOPPED, _STOPPED], True),
        ([_OTHER, _STOPPED, _WORKING], False),
        ([_OTHER, _WORKING], False),
        ([_OTHER], False),
    ],
)
async def test_a_machine_is_paused_when_all_its_tasks_are_stopped(
    tmp_path: Path, stacks: list[str], expected: bool
) -> None:
    async with kernel(tmp_path, lambda _: success("\n\n".join(stacks))) as control:
        assert await control.paused() is expected


async def test_methods_are_named_as_the_kernel_knows_them(tmp_path: Path) -> None:
    called: list[str] = []

    def answer(method: str) -> bytes:
        called.append(method)
        return success({})

    async with kernel(tmp_path, answer) as control:
        await control.pause()
        await control.resume()
    assert called == ["containerManager.Pause", "containerManager.Resume"]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b'{"success": tru',
        b"[]}",
        json.dumps({"success": False, "err": "no such method", "result": None}).encode(),
    ],
)
async def test_what_is_no_success_is_a_failure(tmp_path: Path, answer: bytes) -> None:
    async with kernel(tmp_path, lambda _: answer) as control:
        with pytest.raises(ControlFailed, match=r"containerManager\.Pause"):
            await control.pause()


async def test_a_machine_that_has_ended_cannot_be_reached(tmp_path: Path) -> None:
    machine = MachineFolder(tmp_path / _ID)
    machine.create()
    with pytest.raises(ControlFailed):
        await Control(_ID, machine).pause()
    gone = {"sandbox": {"controlSocketPath": str(tmp_path / "runsc.sock")}}
    (machine.state / f"{_ID}_sandbox:{_ID}.state").write_text(json.dumps(gone))
    with pytest.raises(ControlFailed):
        await Control(_ID, machine).pause()
