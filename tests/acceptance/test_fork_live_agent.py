"""A Claude session is forked in the middle of its conversation (docs/guides/fork-a-live-agent.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from opencomputer import Sandbox
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.anyio, pytest.mark.machines]

TURN_SECONDS = 120


@pytest.fixture(scope="module")
def server(shared_server: ServerProcess) -> ServerProcess:
    """Nothing here is done to the node."""
    return shared_server


async def ask(sandbox: Sandbox, session_id: str, prompt: str) -> str:
    """Let an agent do one more turn. Returns everything it has said so far."""
    async with await sandbox.agent.attach(session_id) as session:
        session.send_prompt(prompt)
        async with asyncio.timeout(TURN_SECONDS):
            said = "\n".join(map(str, await session.collect_events()))
            assert await session.wait() == 0, said
            return said


@pytest.fixture
async def begun(sandbox: Sandbox) -> AsyncGenerator[str]:
    """A session that has done one turn."""
    session = await sandbox.agent.start(prompt="run `echo we begin > story.txt`")
    async with asyncio.timeout(TURN_SECONDS):
        await session.wait()
    session_id = session.session_id
    await session.close()
    yield session_id
    async with await sandbox.agent.attach(session_id) as still:
        await still.kill()


async def test_both_copies_go_on_by_themselves(sandbox: Sandbox, begun: str) -> None:
    forks = await sandbox.fork(2)
    try:
        for fork, season in zip(forks, ("summer", "winter"), strict=True):
            (copy,) = await fork.agent.list()
            assert copy.session_id == begun
            await ask(fork, begun, f"run `echo it was {season} > next.txt`")
        assert [await each.files.read("next.txt") for each in forks] == ["it was summer\n", "it was winter\n"]
        assert not await sandbox.files.exists("next.txt")
        told = [await ask(fork, begun, "what have I said?") for fork in forks]
        assert all("echo we begin" in each for each in told)
        assert "summer" in told[0]
        assert "winter" not in told[0]
        assert "winter" in told[1]
    finally:
        for fork in forks:
            await fork.kill()


async def test_the_source_goes_on_too(sandbox: Sandbox, begun: str) -> None:
    (fork,) = await sandbox.fork()
    await fork.kill()
    await ask(sandbox, begun, "run `echo the end > end.txt`")
    assert await sandbox.files.read("end.txt") == "the end\n"
    assert await sandbox.files.read("story.txt") == "we begin\n"
