"""Exec sessions in a real machine: nothing lost, nothing left."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer import Sandbox
from tests.support.node import Api, output, receive_all
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.machines]


@pytest.fixture(scope="module")
def server(shared_server: ServerProcess) -> ServerProcess:
    """Nothing here is done to the node."""
    return shared_server


async def test_not_a_byte_is_lost_between_replay_and_live(api: Api, sandbox: Sandbox) -> None:
    script = "i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done"
    session = await api.start(sandbox.id, script)

    async def attach(delay: float) -> bytes:
        await asyncio.sleep(delay)
        async with api.socket(f"/sandboxes/{sandbox.id}/exec/{session}") as socket:
            messages = await receive_all(socket)
        assert [message[0] for message in messages].count(4) == 1
        assert messages[-1] == b"\x03\x00\x00\x00\x00"
        return output(messages, 1)

    seen = await asyncio.gather(*(attach(number * 0.03) for number in range(8)))
    assert set(seen) == {b"".join(b"%d\n" % number for number in range(20_000))}


async def test_a_lost_connection_is_no_exit(sandbox: Sandbox) -> None:
    session = await sandbox.exec.start("sh", args=["-c", "cat"])
    await session.close()
    listed = {each.session_id: each for each in await sandbox.exec.list()}
    assert listed[session.session_id].running
    again = await sandbox.exec.attach(session.session_id)
    await again.send_stdin("hello\n")
    await again.kill()
    assert await again.done == 137


async def test_a_session_that_lingers_ends_in_time_and_coming_back_saves_it(sandbox: Sandbox) -> None:
    kept = await sandbox.exec.start("sleep", args=["300"], max_run_after_disconnect=3)
    left = await sandbox.exec.start("sleep", args=["300"], max_run_after_disconnect=1)
    await kept.close()
    await left.close()
    kept = await sandbox.exec.attach(kept.session_id)

    async def ended() -> bool:
        listed = {each.session_id: each for each in await sandbox.exec.list()}
        assert listed[kept.session_id].running
        return not listed[left.session_id].running

    await eventually(ended, "the end of the one that was left")
    await asyncio.sleep(3)
    assert await ended()
    await kept.kill()


async def test_a_late_attach_still_gets_everything(sandbox: Sandbox) -> None:
    session = await sandbox.exec.start("sh", args=["-c", "echo out; echo err >&2; exit 5"])
    assert await session.done == 5
    await asyncio.sleep(1)
    seen: list[bytes] = []
    late = await sandbox.exec.attach(session.session_id, on_stdout=seen.append, on_stderr=seen.append)
    assert await late.done == 5
    assert sorted(seen) == [b"err\n", b"out\n"]


async def test_orphans_leave_no_zombies(sandbox: Sandbox) -> None:
    await sandbox.exec.run("for i in $(seq 100); do (sleep 0 &) ; done", timeout=60)

    async def none_left() -> bool:
        return (await sandbox.exec.run("ps -eo stat= | grep -c ^Z")).stdout.strip() == "0"

    await eventually(none_left, "the end of the zombies")


async def test_what_is_said_is_in_the_log_also_while_the_sandbox_sleeps(sandbox: Sandbox) -> None:
    """The one test of the log on a real machine: its processes, its /var/log, and its rest."""
    await sandbox.exec.start("sh", args=["-c", "echo alone; exit 3"])
    await sandbox.exec.run("sudo sh -c 'echo noted >> /var/log/mine.log'")
    said: list[str] = []
    async with asyncio.timeout(60):
        async for line in sandbox.logs():
            said.append(line.line if line.exit_code is None else f"exited with {line.exit_code}")
            if {"alone", "exited with 3", "noted"} <= set(said):
                break
    await sandbox.hibernate()
    asleep = [line async for line in sandbox.logs(tail=False, sources=["var_log"])]
    assert [(line.path, line.line) for line in asleep] == [("/var/log/mine.log", "noted")]
    await sandbox.exec.run("sudo sh -c 'echo more >> /var/log/mine.log'")
    async with asyncio.timeout(60):
        async for line in sandbox.logs(sources=["var_log"]):
            if line.line == "more":
                break
