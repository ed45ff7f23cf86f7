"""The published SDK's `agent`, answered by the node's scripted model: everything but the model is real."""

import asyncio

import httpx
from checks import covers, main, raises


def types(events):
    return [event.type for event in events]


def final_text(events):
    return next(event.data["result"] for event in events if event.type == "result")


async def has_begun(session):
    """Read on until the model's answer is under way."""
    begun = asyncio.Event()
    session._on_event = lambda event: begun.set() if event.type in ("system", "assistant") else None
    turn = asyncio.ensure_future(session.wait())
    async with asyncio.timeout(60):
        await begun.wait()
    return turn


@covers("A26", "A27")
async def a_prompted_session_tells_its_turn_and_ends_it_with_zero(sandbox):
    seen, errors = [], []
    session = await sandbox.agent.start(
        prompt="run `echo $((20 + 22)) > /tmp/answer; cat /tmp/answer`",
        on_event=seen.append,
        on_error=errors.append,
    )
    events = await session.collect_events()
    assert session._exit_code == 0
    assert types(events)[0] == "ready"
    assert types(events)[-2:] == ["result", "turn_complete"]
    assert {"system", "assistant", "user"} <= set(types(events))
    assert "42" in final_text(events)
    assert events[-1].data["claude_session_id"]
    assert types(seen) == types(events)
    assert errors == []
    assert await sandbox.files.read("/tmp/answer") == "42\n"
    await session.close()


@covers("A26", "A27")
async def follow_up_prompts_go_on_in_the_same_conversation(sandbox):
    session = await sandbox.agent.start(prompt="remember the word tangerine")
    assert await session.wait() == 0
    session.send_prompt("what did I say?")
    events = await session.collect_events()
    assert types(events)[-1] == "turn_complete"
    assert "tangerine" in final_text(events)
    session.send_prompt("run `pwd`")
    assert "/home/sandbox" in final_text(await session.collect_events())
    await session.kill()
    await session.close()


@covers("A26", "A27")
async def a_session_takes_every_option(sandbox):
    await sandbox.files.make_dir("/tmp/project")
    session = await sandbox.agent.start(
        prompt="run `pwd`",
        model="claude-sonnet-4-20250514",
        system_prompt="Answer briefly.",
        allowed_tools=["Bash"],
        permission_mode="bypassPermissions",
        max_turns=5,
        cwd="/tmp/project",
        mcp_servers={"nothing": {"command": "cat", "args": [], "env": {"A": "b"}}},
    )
    events = await session.collect_events()
    assert types(events)[:2] == ["ready", "configured"]
    assert "/tmp/project" in final_text(events)
    await session.kill()
    await session.close()


@covers("A27")
async def configure_between_turns_is_used_by_the_next(sandbox):
    session = await sandbox.agent.start(prompt="run `pwd`")
    assert "/home/sandbox" in final_text(await session.collect_events())
    session.configure(cwd="/var/tmp", max_turns=7, system_prompt="Be brief.")
    session.send_prompt("run `pwd`")
    events = await session.collect_events()
    assert "configured" in types(events)
    assert "/var/tmp" in final_text(events)
    await session.kill()
    await session.close()


@covers("A27")
async def interrupt_stops_a_turn_that_is_under_way(sandbox):
    session = await sandbox.agent.start(prompt="count slowly")
    turn = await has_begun(session)
    events = []
    session._on_event = events.append
    session.interrupt()
    async with asyncio.timeout(60):
        assert await turn == 130
    assert types(events)[-1] == "interrupted"
    session.send_prompt("run `echo onwards`")
    assert "onwards" in final_text(await session.collect_events())
    await session.kill()
    await session.close()


@covers("A27")
async def attach_replays_what_was_said(sandbox):
    session = await sandbox.agent.start(prompt="run `echo replayed`")
    first = await session.collect_events()
    await session.close()
    replayed, live = [], []
    again = await sandbox.agent.attach(session.session_id, on_event=replayed.append)
    again.send_prompt("what did I say?")
    assert await again.wait() == 0
    live = replayed[len(first) :]
    assert types(replayed[: len(first)]) == types(first)
    assert "echo replayed" in final_text(live)
    await again.kill()
    await again.close()


@covers("A27")
async def the_end_of_a_turn_waits_for_a_client(sandbox):
    session = await sandbox.agent.start(prompt="run `sleep 1; touch /tmp/unwatched`")
    await session.close()
    await sandbox.exec.run("until test -e /tmp/unwatched; do sleep 0.1; done; sleep 2", timeout=25)
    again = await sandbox.agent.attach(session.session_id)
    events = await again.collect_events()
    assert again._exit_code == 0
    assert types(events)[-1] == "turn_complete"
    await again.kill()
    await again.close()


@covers("A28")
async def list_shows_sessions_and_kill_ends_them(sandbox):
    session = await sandbox.agent.start()
    found = next(each for each in await sandbox.agent.list() if each.session_id == session.session_id)
    assert (found.running, found.sandbox_id) == (True, sandbox.sandbox_id)
    assert found.started_at
    await session.kill()
    assert await session.wait() == 137
    found = next(each for each in await sandbox.agent.list() if each.session_id == session.session_id)
    assert not found.running
    commands = {each.session_id: each.command for each in await sandbox.exec.list()}
    assert commands[session.session_id] == "claude-agent-wrapper"
    await session.close()


@covers("A28")
async def kill_of_an_unknown_session_is_not_found(sandbox):
    session = await sandbox.agent.start()
    identity = session.session_id
    session.session_id = "ffffffff"
    error = await raises(httpx.HTTPStatusError, session.kill())
    assert error.response.status_code == 404
    session.session_id = identity
    await session.kill()
    await session.close()


main()
