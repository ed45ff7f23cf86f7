"""A Claude session is forked in the middle of its conversation (docs/guides/fork-a-live-agent.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from opencomputer import Sandbox

pytestmark = [pytest.mark.anyio, pytest.mark.machines]

TURN_SECONDS = 120


async def ask(sandbox: Sandbox, session_id: str, prompt: str) -> str:
    """Let an agent do one more turn. Returns all the text it answered with."""
    async with await sandbox.agent.attach(session_id) as session:
        session.send_prompt(prompt)
        async with asyncio.timeout(TURN_SECONDS):
            return "\n".join(map(str, await session.collect_events()))


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
        lines = ("it was summer", "it was winter")
        for fork, line in zip(forks, lines, strict=True):
            (copy,) = await fork.agent.list()
            assert copy.session_id == begun
            await ask(fork, begun, f"run `echo {line} >> story.txt`")
        stories = [await each.files.read("story.txt") for each in (*forks, sandbox)]
        assert stories == ["we begin\nit was summer\n", "we begin\nit was winter\n", "we begin\n"]
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
    await ask(sandbox, begun, "run `echo the end >> story.txt`")
    assert await sandbox.files.read("story.txt") == "we begin\nthe end\n"
