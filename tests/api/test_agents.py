"""Agent sessions: started, prompted, interrupted, and the ends of their turns (decision D10)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus

from tests.support.node import Api, receive_all
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

MARK = b"\x04"
COMPLETE, FAILED, INTERRUPTED = (b"\x03" + code.to_bytes(4, "big") for code in (0, 1, 130))

# A stand-in for the runner: it does what its prompts say, and speaks the runner's protocol.
RUNNER = f"""#!{sys.executable} -IS
import json, os, sys

def say(**event):
    print(json.dumps(event), flush=True)

say(type="ready")
for line in sys.stdin:
    command = json.loads(line)
    if command["type"] == "configure":
        say(type="configured", configuration=command)
    elif command["type"] == "interrupt":
        say(type="interrupted")
    elif command["text"] == "environment":
        say(type="assistant", environment=dict(os.environ))
        say(type="turn_complete", claude_session_id="c0ffee")
    elif command["text"] == "fail":
        say(type="error", message="no", ends_turn=True)
    elif command["text"] == "queued":
        say(type="turn_complete", claude_session_id="c0ffee", pending_prompts=1)
    elif command["text"] == "to the file":
        open(os.path.join(os.environ["HOME"], f"written-{{os.getppid()}}"), "w").close()
    elif command["text"] == "work":
        say(type="assistant", text="working")
    elif command["text"] == "exit":
        sys.exit(3)
    else:
        print("a note", file=sys.stderr, flush=True)
        say(type="assistant", text=command["text"])
        say(type="turn_complete", claude_session_id="c0ffee")
"""


@pytest.fixture(scope="module")
async def home(api: Api, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A sandbox that has a runner."""
    programs = tmp_path_factory.mktemp("programs")
    runner = programs / "claude-agent-wrapper"
    runner.write_text(RUNNER)
    runner.chmod(0o755)
    return (await api.create(envs={"PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin"}))["sandboxID"]


class Agent:
    def __init__(self, api: Api, sandbox: str, session: str) -> None:
        self.api = api
        self.sandbox = sandbox
        self.session = session

    @property
    def path(self) -> str:
        return f"/sandboxes/{self.sandbox}/agent/{self.session}"

    def socket(self, kind: str = "exec") -> Any:
        return self.api.socket(f"/sandboxes/{self.sandbox}/{kind}/{self.session}")

    async def post(self, action: str, **options: Any) -> int:
        return (await self.api.post(f"{self.path}/{action}", **options)).status_code

    async def prompt(self, text: str) -> None:
        assert await self.post("prompt", json={"text": text}) == 204

    async def row(self) -> dict[str, Any]:
        found = (await self.api.get(f"/sandboxes/{self.sandbox}/agent")).json()
        return next(each for each in found if each["sessionID"] == self.session)


@pytest.fixture
async def agent(api: Api, home: str) -> AsyncGenerator[Agent]:
    started = await api.post(f"/sandboxes/{home}/agent")
    assert started.status_code == 201
    made = Agent(api, home, started.json()["sessionID"])
    yield made
    await made.post("kill")


async def next_end(socket: ClientConnection) -> tuple[list[dict[str, Any]], bytes]:
    """The events up to the next exit frame, and that frame."""
    text = b""
    while True:
        message = await asyncio.wait_for(socket.recv(), 60)
        assert isinstance(message, bytes)
        if message[0] == 3:
            return [json.loads(line) for line in text.splitlines()], message
        if message[0] == 1:
            text += message[1:]


async def quiet(socket: ClientConnection, seconds: float = 0.3) -> bool:
    """Whether nothing at all comes for a while."""
    try:
        await asyncio.wait_for(socket.recv(), seconds)
    except TimeoutError:
        return True
    return False


async def written(agent: Agent) -> bool:
    """Whether the agent has come to the prompt that says nothing."""
    return (await agent.api.run(agent.sandbox, "rm $HOME/written-*"))["exitCode"] == 0


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


# Start


async def test_an_agent_is_shown_as_the_contract_says(api: Api, home: str) -> None:
    answer = await api.post(f"/sandboxes/{home}/agent", json={"prompt": "hello"})
    assert answer.status_code == 201
    shown = answer.json()
    assert set(shown) == {"sessionID", "sandboxID", "running", "startedAt"}
    assert (shown["sandboxID"], shown["running"]) == (home, True)
    agents = (await api.get(f"/sandboxes/{home}/agent")).json()
    assert shown["sessionID"] in [each["sessionID"] for each in agents]
    sessions = (await api.get(f"/sandboxes/{home}/exec")).json()
    row = next(each for each in sessions if each["sessionID"] == shown["sessionID"])
    assert row["command"] == "claude-agent-wrapper"


async def test_a_prompted_and_configured_start_comes_in_order(api: Api, home: str) -> None:
    asked = {
        "prompt": "hello",
        "model": "m",
        "systemPrompt": "s",
        "allowedTools": ["Bash"],
        "permissionMode": "plan",
        "maxTurns": 3,
        "cwd": "/tmp",
        "mcpServers": {"x": {"command": "y", "args": ["z"], "env": {"A": "b"}}},
        "resume": "earlier",
    }
    answer = await api.post(f"/sandboxes/{home}/agent", json=asked)
    agent = Agent(api, home, answer.json()["sessionID"])
    async with agent.socket() as socket:
        events, end = await next_end(socket)
    assert end == COMPLETE
    assert types(events) == ["ready", "configured", "assistant", "turn_complete"]
    prompt = asked.pop("prompt")
    assert events[1]["configuration"] == {"type": "configure", **asked}
    assert events[2]["text"] == prompt


async def test_without_a_prompt_it_sits_after_ready(agent: Agent) -> None:
    async with agent.socket() as socket:
        while b"ready" not in (message := await asyncio.wait_for(socket.recv(), 60)):
            assert message == MARK
        if not await quiet(socket):
            assert await quiet(socket), "the mark may come after what was replayed, and nothing else"


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": 5},
        {"model": 5},
        {"allowedTools": "Bash"},
        {"allowedTools": [1]},
        {"maxTurns": 0},
        {"maxTurns": -1},
        {"maxTurns": "50"},
        {"maxTurns": 1.5},
        {"mcpServers": []},
        {"mcpServers": {"x": {}}},
        {"mcpServers": {"x": {"command": ""}}},
        {"mcpServers": {"x": {"command": "y", "args": "z"}}},
        {"cwd": 1},
        {"resume": {}},
    ],
)
async def test_an_invalid_field_is_refused_by_name(api: Api, home: str, body: dict[str, Any]) -> None:
    before = len((await api.get(f"/sandboxes/{home}/agent")).json())
    answer = await api.post(f"/sandboxes/{home}/agent", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert answer.json()["field"].split(".")[0] == next(iter(body))
    assert len((await api.get(f"/sandboxes/{home}/agent")).json()) == before


async def test_a_sandbox_without_a_runner_says_so(api: Api, sandbox: str) -> None:
    answer = await api.post(f"/sandboxes/{sandbox}/agent", json={"prompt": "x"})
    assert (answer.status_code, answer.json()["code"]) == (501, "not_supported")
    assert "runner" in answer.json()["error"]
    assert not any(each["running"] for each in (await api.get(f"/sandboxes/{sandbox}/agent")).json())


# Turns


async def test_each_turn_ends_with_an_exit_frame_and_the_socket_stays(agent: Agent) -> None:
    async with agent.socket() as socket:
        for text, end in (("one", COMPLETE), ("fail", FAILED), ("two", COMPLETE)):
            await agent.prompt(text)
            events, frame = await next_end(socket)
            assert frame == end
            assert types(events)[-1] in ("turn_complete", "error")
        assert (await agent.row())["running"] is True


async def test_a_prompt_may_come_over_the_socket(agent: Agent) -> None:
    async with agent.socket() as socket:
        await socket.send(b'\x00{"type":"prompt","text":"over the socket"}\n')
        events, frame = await next_end(socket)
        assert events[-2]["text"] == "over the socket"
        assert frame == COMPLETE


async def test_an_interrupt_ends_the_turn(agent: Agent) -> None:
    async with agent.socket() as socket:
        await agent.prompt("work")
        await agent.prompt("work")
        assert await agent.post("interrupt") == 204
        events, frame = await next_end(socket)
        assert frame == INTERRUPTED
        assert types(events).count("assistant") == 2


async def test_while_another_prompt_waits_the_work_is_not_at_its_end(agent: Agent) -> None:
    async with agent.socket() as socket:
        await agent.prompt("queued")
        await agent.prompt("last")
        events, frame = await next_end(socket)
        assert frame == COMPLETE
        assert types(events).count("turn_complete") == 2


async def test_the_session_to_resume_is_listed(agent: Agent) -> None:
    assert "claudeSessionID" not in await agent.row()
    async with agent.socket() as socket:
        await agent.prompt("one")
        await next_end(socket)

        async def listed() -> bool:
            return (await agent.row()).get("claudeSessionID") == "c0ffee"

        await eventually(listed, "the session's id in the list")


async def test_the_end_of_a_turn_goes_to_everybody_who_is_attached(agent: Agent) -> None:
    async with agent.socket() as first, agent.socket() as second:
        for socket in (first, second):
            while await asyncio.wait_for(socket.recv(), 60) != MARK:
                pass
        await agent.prompt("one")
        assert [(await next_end(socket))[1] for socket in (first, second)] == [COMPLETE, COMPLETE]


async def test_an_end_that_nobody_saw_is_given_once_to_the_next_who_comes(agent: Agent) -> None:
    await agent.prompt("one")
    await agent.prompt("fail")
    await agent.prompt("to the file")
    await eventually(lambda: written(agent), "the work")
    async with agent.socket() as socket:
        messages = [await asyncio.wait_for(socket.recv(), 60)]
        while messages[-1] != FAILED:
            messages.append(await asyncio.wait_for(socket.recv(), 60))
        assert messages[-2:] == [MARK, FAILED], "the last end only, and behind the mark"
        assert COMPLETE not in messages
        assert await quiet(socket)
    async with agent.socket() as socket:
        messages = [await asyncio.wait_for(socket.recv(), 60)]
        while messages[-1] != MARK:
            messages.append(await asyncio.wait_for(socket.recv(), 60))
        assert FAILED not in messages
        assert await quiet(socket)


async def test_of_several_who_come_at_once_one_gets_the_end_that_nobody_saw(agent: Agent) -> None:
    await agent.prompt("fail")
    await agent.prompt("to the file")
    await eventually(lambda: written(agent), "the work")

    async def attach() -> int:
        async with agent.socket() as socket:
            while await asyncio.wait_for(socket.recv(), 60) != MARK:
                pass
            return int(not await quiet(socket))

    assert sum(await asyncio.gather(*(attach() for _ in range(6)))) == 1


async def test_an_end_that_somebody_saw_is_not_repeated_to_those_who_come_later(agent: Agent) -> None:
    async with agent.socket() as socket:
        await agent.prompt("one")
        await next_end(socket)
        await asyncio.sleep(0.1)
        async with agent.socket() as later:
            while await asyncio.wait_for(later.recv(), 60) != MARK:
                pass
            assert await quiet(later)


async def test_the_real_end_closes_the_socket(agent: Agent) -> None:
    async with agent.socket() as socket:
        await agent.prompt("exit")
        messages = await receive_all(socket)
    assert messages[-1] == b"\x03\x00\x00\x00\x03"
    assert socket.close_code == 1000
    assert (await agent.row())["running"] is False


async def test_a_kill_is_a_real_end(agent: Agent) -> None:
    async with agent.socket() as socket:
        await agent.prompt("work")
        assert await agent.post("kill", json={}) == 204
        messages = await receive_all(socket)
    assert messages[-1] == b"\x03\x00\x00\x00\x89"
    assert socket.close_code == 1000
    assert await agent.post("kill") == 204


async def test_the_log_of_the_runner_is_the_other_stream(agent: Agent) -> None:
    async with agent.socket() as socket:
        await agent.prompt("one")
        while not (message := await asyncio.wait_for(socket.recv(), 60)).startswith(b"\x02"):
            assert b"a note" not in message
        assert message == b"\x02a note\n"


async def test_the_other_name_of_the_socket_is_for_agents_only(api: Api, agent: Agent) -> None:
    async with agent.socket("agent") as socket:
        await agent.prompt("one")
        assert (await next_end(socket))[1] == COMPLETE
    session = await api.start(agent.sandbox, "sleep 60")
    with pytest.raises(InvalidStatus) as refused:
        async with api.socket(f"/sandboxes/{agent.sandbox}/agent/{session}"):
            pass
    assert refused.value.response.status_code == 404


# Prompts and the like to what is no agent


@pytest.mark.parametrize("action", ["prompt", "interrupt", "kill"])
async def test_what_is_no_agent_is_not_found(api: Api, agent: Agent, action: str) -> None:
    plain = await api.start(agent.sandbox, "cat")
    for session in (plain, "00000000"):
        answer = await api.post(f"/sandboxes/{agent.sandbox}/agent/{session}/{action}", json={"text": "x"})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("body", [{}, {"text": ""}, {"text": 5}, {"text": None}])
async def test_a_prompt_needs_a_text(agent: Agent, body: dict[str, Any]) -> None:
    answer = await agent.api.post(f"{agent.path}/prompt", json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, "text")


async def test_a_key_of_the_sandbox_reaches_the_runner_as_it_is(api: Api, agent: Agent) -> None:
    programs = (await api.run(agent.sandbox, "dirname $(command -v claude-agent-wrapper)"))["stdout"].strip()
    own = await api.create(envs={"PATH": f"{programs}:/usr/bin:/bin", "ANTHROPIC_API_KEY": "sk-own"})
    started = await api.post(f"/sandboxes/{own['sandboxID']}/agent", json={"prompt": "environment"})
    async with Agent(api, own["sandboxID"], started.json()["sessionID"]).socket() as socket:
        events, _ = await next_end(socket)
    environment = next(event["environment"] for event in events if "environment" in event)
    assert environment["ANTHROPIC_API_KEY"] == "sk-own"
    assert "ANTHROPIC_BASE_URL" not in environment
