"""`sandbox.agent`: starting, following, steering and waiting."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest

from opencomputer import AgentEvent, AgentSession, Sandbox, UnavailableError
from opencomputer.sdk.agent_session import AgentCallbacks
from opencomputer.wire import frames
from tests.support.fake_node import FakeNode, Rule
from tests.support.fake_node.node import FakeSandbox
from tests.support.fake_node.sessions import AgentScript
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

TURN: list[dict[str, object]] = [
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "done"}]}},
    {"type": "result", "subtype": "success", "result": "done"},
    {"type": "turn_complete", "claude_session_id": "c0ffee"},
]
TURN_TYPES = [str(event["type"]) for event in TURN]


def script_of(inside: FakeSandbox, session: AgentSession) -> AgentScript:
    return cast(AgentScript, inside.sessions[session.session_id])


def types(events: list[AgentEvent]) -> list[str]:
    return [event.type for event in events]


async def test_start_sends_just_what_was_set(node: FakeNode, sandbox: Sandbox) -> None:
    session = await sandbox.agent.start(
        prompt="go",
        model="m",
        system_prompt="s",
        allowed_tools=["Bash"],
        permission_mode="plan",
        max_turns=3,
        cwd="/w",
        mcp_servers={"one": {"command": "c"}},
        resume="c0ffee",
    )
    assert node.requests("POST", "/agent")[0].body == {
        "prompt": "go",
        "model": "m",
        "systemPrompt": "s",
        "allowedTools": ["Bash"],
        "permissionMode": "plan",
        "maxTurns": 3,
        "cwd": "/w",
        "mcpServers": {"one": {"command": "c"}},
        "resume": "c0ffee",
    }
    await session.close()


async def test_start_without_anything_sends_an_empty_object(node: FakeNode, sandbox: Sandbox) -> None:
    session = await sandbox.agent.start()
    assert node.requests("POST", "/agent")[0].body == {}
    await session.close()


async def test_a_start_whose_answer_is_lost_is_not_repeated(node: FakeNode, sandbox: Sandbox) -> None:
    """Agents have no idempotency keys, and two of them would work on the same task."""
    node.rules.append(Rule("POST", f"/sandboxes/{sandbox.id}/agent", 502, {"error": "lost"}))
    with pytest.raises(UnavailableError):
        await sandbox.agent.start(prompt="go")
    assert len(node.requests("POST", "/agent")) == 1


async def test_events_reach_the_callback_although_nobody_waits(node: FakeNode, sandbox: Sandbox) -> None:
    node.agent_answer = TURN
    heard: list[AgentEvent] = []
    session = await sandbox.agent.start(prompt="go", on_event=heard.append)
    await eventually(lambda: types(heard) == ["ready", *TURN_TYPES])
    assert heard[-1]["claude_session_id"] == "c0ffee"
    await session.close()


async def test_wait_returns_at_the_end_of_the_turn_and_the_session_lives_on(
    node: FakeNode, sandbox: Sandbox, inside: FakeSandbox
) -> None:
    node.agent_answer = TURN
    session = await sandbox.agent.start(prompt="go")
    assert await session.wait() == 0
    session.send_prompt("again")
    assert await session.wait() == 0
    prompts = [command for command in script_of(inside, session).commands if command["type"] == "prompt"]
    assert [prompt["text"] for prompt in prompts] == ["go", "again"]
    await session.close()


async def test_wait_after_the_turn_is_over_returns_at_once(node: FakeNode, sandbox: Sandbox) -> None:
    node.agent_answer = TURN
    heard: list[AgentEvent] = []
    session = await sandbox.agent.start(prompt="go", on_event=heard.append)
    await eventually(lambda: "turn_complete" in types(heard))
    assert await session.wait() == 0
    await session.close()


async def test_wait_covers_every_prompt_that_was_sent(
    node: FakeNode, sandbox: Sandbox, inside: FakeSandbox
) -> None:
    session = await sandbox.agent.start()
    script = script_of(inside, session)
    session.send_prompt("one")
    session.send_prompt("two")
    await eventually(lambda: len(script.commands) == 2)
    waiting = asyncio.create_task(session.wait())
    node.do(lambda: script.event(type="turn_complete"))
    await asyncio.wait([waiting], timeout=0.05)
    assert not waiting.done()
    node.do(lambda: script.event(type="error", message="broke"))
    assert await waiting == 1
    await session.close()


async def test_an_interrupt_ends_the_turn_with_130(
    node: FakeNode, sandbox: Sandbox, inside: FakeSandbox
) -> None:
    session = await sandbox.agent.start(prompt="long")
    session.interrupt()
    assert await session.wait() == 130
    assert script_of(inside, session).exit_code is None
    await session.close()


async def test_wait_until_exit_goes_on_over_turns(
    node: FakeNode, sandbox: Sandbox, inside: FakeSandbox
) -> None:
    node.agent_answer = TURN
    codes: list[int] = []
    session = await sandbox.agent.start(prompt="go", on_exit=codes.append)
    await session.wait()
    assert not session.done.done()
    waiting = asyncio.create_task(session.wait(until="exit"))
    node.do(script_of(inside, session).exit, 7)
    assert await waiting == 7
    assert await session.done == 7
    assert await session.wait() == 7
    assert codes == [7]


async def test_kill_ends_the_process(sandbox: Sandbox, inside: FakeSandbox) -> None:
    session = await sandbox.agent.start()
    await session.kill()
    assert await session.wait(until="exit") == 137
    assert script_of(inside, session).killed_with == [9]
    await session.kill()
    assert script_of(inside, session).killed_with == [9]


async def test_a_lost_link_ends_with_minus_one(node: FakeNode, sandbox: Sandbox, inside: FakeSandbox) -> None:
    session = await sandbox.agent.start(prompt="go")
    script = script_of(inside, session)
    await eventually(lambda: script.followers)
    node.do(script.drop)
    assert await session.wait() == -1


async def test_with_reconnect_no_event_is_lost_or_doubled(
    node: FakeNode, sandbox: Sandbox, inside: FakeSandbox
) -> None:
    heard: list[AgentEvent] = []
    session = await sandbox.agent.start(prompt="go", on_event=heard.append, reconnect=True)
    script = script_of(inside, session)
    await eventually(lambda: types(heard) == ["ready"])
    node.do(script.drop)
    node.do(lambda: script.event(type="assistant", number=1))
    await eventually(lambda: len(heard) == 2)
    node.do(lambda: script.event(type="turn_complete"))
    assert await session.wait() == 0
    assert types(heard) == ["ready", "assistant", "turn_complete"]
    await session.close()


async def test_collect_includes_what_came_before_and_callbacks_still_fire(
    node: FakeNode, sandbox: Sandbox
) -> None:
    node.agent_answer = TURN
    heard: list[AgentEvent] = []
    session = await sandbox.agent.start(prompt="go", on_event=heard.append)
    await eventually(lambda: len(heard) == 4)
    assert types(await session.collect_events()) == ["ready", *TURN_TYPES]
    session.send_prompt("again")
    assert types(await session.collect_events()) == TURN_TYPES
    assert len(heard) == 7
    await session.close()


async def test_iterating_gives_every_event_until_the_process_ends(
    node: FakeNode, sandbox: Sandbox, inside: FakeSandbox
) -> None:
    node.agent_answer = TURN
    session = await sandbox.agent.start(prompt="go")
    seen: list[str] = []
    async for event in session:
        seen.append(event.type)
        if event.type == "turn_complete":
            node.do(script_of(inside, session).exit, 0)
    assert seen == ["ready", *TURN_TYPES]


async def test_events_of_unknown_types_arrive_as_they_are(node: FakeNode, sandbox: Sandbox) -> None:
    new: dict[str, object] = {"type": "of_the_future", "type_of": {"it": [1, None]}}
    node.agent_answer = [new, *TURN, new]
    heard: list[AgentEvent] = []
    session = await sandbox.agent.start(prompt="go", on_event=heard.append)
    await eventually(lambda: types(heard) == ["ready", "of_the_future", *TURN_TYPES, "of_the_future"])
    assert await session.collect_events() == heard
    assert heard[1] == heard[-1] == AgentEvent("of_the_future", {"type_of": {"it": [1, None]}})
    await session.close()


async def test_configure_sends_only_what_is_given(sandbox: Sandbox, inside: FakeSandbox) -> None:
    heard: list[AgentEvent] = []
    session = await sandbox.agent.start(on_event=heard.append)
    session.configure(model="other", max_turns=2, mcp_servers={}, resume="c0ffee")
    session.configure()
    await eventually(lambda: types(heard).count("configured") == 2)
    assert script_of(inside, session).commands == [
        {"type": "configure", "model": "other", "maxTurns": 2, "mcpServers": {}, "resume": "c0ffee"},
        {"type": "configure"},
    ]
    await session.close()


async def test_what_was_queued_is_sent_before_the_session_is_closed(
    sandbox: Sandbox, inside: FakeSandbox
) -> None:
    session = await sandbox.agent.start()
    session.send_prompt("last words")
    await session.close()
    script = script_of(inside, session)
    await eventually(lambda: script.commands)
    assert script.commands[0]["text"] == "last words"
    assert script.exit_code is None


async def test_log_text_and_foreign_lines_go_to_on_error(
    node: FakeNode, sandbox: Sandbox, inside: FakeSandbox
) -> None:
    errors: list[str] = []
    session = await sandbox.agent.start(on_error=errors.append)
    script = script_of(inside, session)
    node.do(script.say, frames.STDERR, "warm ☕".encode())
    node.do(script.say, frames.STDOUT, b"not json\n")
    node.do(script.say, frames.STDOUT, b"unfinished tail")
    node.do(script.exit, 1)
    assert await session.wait(until="exit") == 1
    assert errors == ["warm ☕", "non-JSON stdout: not json", "non-JSON stdout: unfinished tail"]


async def test_an_event_larger_than_a_frame_arrives_whole(
    node: FakeNode, sandbox: Sandbox, inside: FakeSandbox
) -> None:
    heard: list[AgentEvent] = []
    session = await sandbox.agent.start(on_event=heard.append)
    line = json.dumps({"type": "assistant", "text": "☕" * 200_000}, ensure_ascii=False).encode() + b"\n"
    script = script_of(inside, session)
    for at in range(0, len(line), 65_536):
        node.do(script.say, frames.STDOUT, line[at : at + 65_536])
    await eventually(lambda: len(heard) == 2)
    assert heard[1]["text"] == "☕" * 200_000
    await session.close()


async def test_attaching_replays_the_events_and_tells_where_live_begins(
    node: FakeNode, sandbox: Sandbox
) -> None:
    node.agent_answer = TURN
    first = await sandbox.agent.start(prompt="go")
    await first.wait()
    await first.close()
    heard: list[str] = []
    second = await sandbox.agent.attach(
        first.session_id,
        on_event=lambda event: heard.append(event.type),
        on_scrollback_end=lambda: heard.append("|"),
    )
    assert await second.wait() == 0
    assert heard == ["ready", *TURN_TYPES, "|"]
    await second.close()


async def test_list_shows_every_agent(sandbox: Sandbox) -> None:
    session = await sandbox.agent.start()
    (listed,) = await sandbox.agent.list()
    assert (listed.session_id, listed.sandbox_id, listed.running) == (
        session.session_id,
        sandbox.sandbox_id,
        True,
    )
    await session.close()


async def test_an_empty_prompt_is_refused_at_once(sandbox: Sandbox) -> None:
    session = await sandbox.agent.start()
    with pytest.raises(ValueError, match="empty"):
        session.send_prompt("")
    await session.close()


def test_no_callback_is_needed() -> None:
    assert AgentCallbacks().on_event is None


async def test_a_prompt_that_meets_a_lost_link_is_sent_over_the_next(
    node: FakeNode, sandbox: Sandbox, inside: FakeSandbox
) -> None:
    """Before the listener has noticed, because it is busy with an event."""
    busy, go_on = asyncio.Event(), asyncio.Event()

    async def on_event(event: AgentEvent) -> None:
        if event.type == "assistant" and not go_on.is_set():
            busy.set()
            await go_on.wait()

    session = await sandbox.agent.start(on_event=on_event, reconnect=True)
    script = script_of(inside, session)
    await eventually(lambda: script.followers)
    node.do(lambda: script.event(type="assistant"))
    await busy.wait()
    node.do(script.drop)
    await eventually(lambda: not script.followers)
    socket = session._stream._socket  # pyright: ignore[reportPrivateUsage] - when the client knows of it
    assert socket is not None
    await socket.wait_closed()
    session.send_prompt("go")
    await asyncio.sleep(0)
    go_on.set()
    await eventually(lambda: {"type": "prompt", "text": "go"} in script.commands)
    await session.close()


async def test_events_of_a_collection_that_was_given_up_are_for_the_next(
    node: FakeNode, sandbox: Sandbox, inside: FakeSandbox
) -> None:
    session = await sandbox.agent.start(prompt="go")
    script = script_of(inside, session)
    collecting = asyncio.create_task(session.collect_events())
    node.do(lambda: script.event(type="assistant", number=1))
    await eventually(lambda: session._collectors and len(session._collectors[0]) == 2)  # pyright: ignore[reportPrivateUsage]
    collecting.cancel()
    await asyncio.wait([collecting])
    node.do(lambda: script.event(type="turn_complete"))
    assert types(await session.collect_events()) == ["ready", "assistant", "turn_complete"]
    await session.close()
