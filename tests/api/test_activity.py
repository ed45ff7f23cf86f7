"""Use keeps a sandbox awake, and what is under way when it gets another machine is told so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.api.state import checkpoint, hibernate, read, status
from tests.support.node import Api, receive_all
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

SHORT = 2


async def asleep(api: Api, sandbox: str) -> bool:
    return await status(api, sandbox) == "hibernated"


async def until_asleep(api: Api, sandbox: str) -> None:
    async def look() -> bool:
        return await asleep(api, sandbox)

    await eventually(look, "that it sleeps")


@pytest.fixture
async def brief(api: Api) -> str:
    """A sandbox that falls asleep when it is not used for two seconds."""
    return (await api.create(timeout=SHORT))["sandboxID"]


async def test_an_upload_keeps_it_awake_while_it_lasts(api: Api, brief: str) -> None:
    async def slowly() -> AsyncIterator[bytes]:
        for _ in range(6):
            assert not await asleep(api, brief)
            yield b"x"
            await asyncio.sleep(0.5)

    answer = await api.put(f"/sandboxes/{brief}/files?path=slow", content=slowly())
    assert answer.status_code == 204, answer.text
    await until_asleep(api, brief)


async def test_a_command_that_is_answered_in_pieces_keeps_it_awake(api: Api, brief: str) -> None:
    assert (await api.run(brief, "sleep 3; echo done"))["stdout"] == "done\n"


async def test_output_on_a_socket_keeps_it_awake_and_silence_does_not(api: Api, brief: str) -> None:
    session = await api.start(brief, "for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done; exec sleep 600")
    async with api.socket(f"/sandboxes/{brief}/exec/{session}") as socket:
        seen = b""
        while b"6" not in seen:
            message = await socket.recv()
            assert isinstance(message, bytes)
            seen += message
            assert not await asleep(api, brief)
        await receive_all(socket)
        assert socket.close_code == 1000
        assert socket.close_reason == "sandbox hibernated"
    assert await asleep(api, brief)


async def test_input_on_a_socket_keeps_it_awake(api: Api, brief: str) -> None:
    session = await api.start(brief, "exec sleep 600")
    async with api.socket(f"/sandboxes/{brief}/exec/{session}") as socket:
        for _ in range(6):
            await socket.send(b"\x00line\n")
            await asyncio.sleep(0.5)
            assert not await asleep(api, brief)


async def test_keepalives_of_a_socket_do_not_keep_it_awake(api: Api, brief: str) -> None:
    session = await api.start(brief, "exec sleep 600")
    async with api.socket(f"/sandboxes/{brief}/exec/{session}", ping_interval=0.2) as socket:
        await receive_all(socket)
    assert await asleep(api, brief)


async def test_looking_at_it_does_not_keep_it_awake(api: Api, brief: str) -> None:
    async def look() -> bool:
        await api.get("/sandboxes")
        await api.get(f"/sandboxes/{brief}/checkpoints")
        return await asleep(api, brief)

    await eventually(look, "that it sleeps")


@pytest.mark.parametrize("what", ["hibernate", "reboot", "restore"])
async def test_a_command_under_way_gets_a_retryable_answer_and_no_lost_sandbox(
    api: Api, sandbox: str, what: str
) -> None:
    made = await checkpoint(api, sandbox, f"for {what}")
    body = {"cmd": "sh", "args": ["-c", f"echo yes > {what}; exec sleep 600"]}
    command = asyncio.create_task(api.post(f"/sandboxes/{sandbox}/exec/run", json=body))
    await eventually(lambda: read(api, sandbox, what), "that the command runs")
    if what == "hibernate":
        await hibernate(api, sandbox)
    elif what == "reboot":
        assert (await api.post(f"/sandboxes/{sandbox}/reboot")).status_code == 204
    else:
        path = f"/sandboxes/{sandbox}/checkpoints/{made['id']}/restore"
        assert (await api.post(path)).is_success
    answer = await command
    assert (answer.status_code, answer.json()["code"]) == (503, "interrupted")
    assert answer.json()["retryable"] is True
    assert int(answer.headers["retry-after"]) >= 1
    assert (await api.run(sandbox, "echo back"))["stdout"] == "back\n"
