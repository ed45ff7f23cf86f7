"""The Python client against a whole node: everything it offers, and what it is told when it may not."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncGenerator

import pytest

from opencomputer import (
    AuthError,
    ConflictError,
    NotFoundError,
    OpenComputer,
    Session,
    ValidationError,
    connect_session,
)
from opencomputer.durable import (
    AgentMessage,
    DurableAgent,
    ExecCompleted,
    SessionEvent,
    ToolCall,
    TurnCompleted,
)
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.anyio, pytest.mark.machines, pytest.mark.timeout(300)]

SECONDS = 60.0


@pytest.fixture(scope="module")
async def oc(shared_server: ServerProcess) -> AsyncGenerator[OpenComputer]:
    async with OpenComputer(shared_server.api_key, base_url=shared_server.url) as client:
        yield client


async def scripted(oc: OpenComputer, behaviour: str, *, keep: int | None = None) -> DurableAgent:
    return await oc.agents.create(
        name=f"{behaviour}-{keep}",
        model=f"scripted/{behaviour}",
        prompt="Do it.",
        runtime="scripted",
        checkpoints={"keep": keep} if keep else None,
    )


def program(*steps: dict[str, object]) -> str:
    return json.dumps(steps)


async def followed(session: Session, after: int = 0) -> list[SessionEvent]:
    seen: list[SessionEvent] = []
    async with asyncio.timeout(SECONDS):
        async for event in session.events(after=after):
            seen.append(event)
            if isinstance(event, TurnCompleted):
                break
    return seen


async def test_agents_revisions_and_skills(oc: OpenComputer) -> None:
    made = await oc.agents.create(name="whole", model="anthropic/claude-sonnet-5", prompt="Help.")
    assert (made.runtime, made.revision, made.version) == ("claude", 1, 1)
    assert (await oc.agents.named("whole")).id == made.id
    with pytest.raises(ConflictError) as conflict:
        await oc.agents.create(name="whole", model="anthropic/claude-sonnet-5", prompt="Other.")
    assert conflict.value.code == "name_conflict"
    changed = await oc.agents.update(made.id, prompt="Help more.", limits={"turns": 4})
    assert (changed.revision, changed.limits) == (2, {"turns": 4})
    assert (await oc.agents.update(made.id, limits=None)).limits is None
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("look/SKILL.md", "---\nname: look\ndescription: how\n---\nLook.")
        deployed = await oc.agents.skills.put(made.id, buffer.getvalue())
    assert deployed.revision is not None
    assert deployed.revision.number == 3
    assert [skill.name for skill in (await oc.agents.skills.get(made.id)).skills] == ["look"]
    assert (await oc.agents.revisions.get(made.id, 3)).files[0].path.endswith("SKILL.md")
    assert await oc.agents.revisions.activate(made.id, 1)
    assert (await oc.agents.get(made.id)).prompt == "Help."
    assert next(each.reason for each in await oc.agents.activations.list(made.id)) == "activate"
    assert [each.number for each in await oc.agents.revisions.list(made.id)] == [3, 2, 1]
    assert len((await oc.agents.deployments.list(made.id)).data) >= 3
    assert (await oc.agents.versions(made.id)).data[0].version >= 4
    await oc.agents.delete(made.id)
    with pytest.raises(NotFoundError):
        await oc.agents.get(made.id)


async def test_credentials(oc: OpenComputer) -> None:
    made = await oc.credentials.create(key="sk-first-of-two-keys-abcd", provider="openai")
    assert (await oc.credentials.rotate(made.id, "sk-second-of-two-keys-wxyz")).last4 == "wxyz"
    assert (await oc.credentials.set_default(made.id)).is_default
    assert made.id in [each.id for each in await oc.credentials.list()]
    await oc.credentials.delete(made.id)
    assert made.id not in [each.id for each in await oc.credentials.list()]


async def test_a_session_from_its_start_to_its_end(oc: OpenComputer) -> None:
    agent = await scripted(oc, "program")
    steps = program({"narrate": "I begin."}, {"bash": "echo made > f; cat f"}, {"say": "Done."})
    session = await oc.sessions.create(agent=agent.id, input=steps, metadata={"a": {"bC": 1}}, key="whole-1")
    events = await followed(session)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert any(isinstance(event, ToolCall) and event.tool == "bash" for event in events)
    ran = next(event for event in events if isinstance(event, ExecCompleted))
    assert (ran.exit_code, "made" in ran.summary) == (0, True)
    said = [event.text for event in events if isinstance(event, AgentMessage)]
    assert said == ["I begin.", "Done."]
    outcome = await session.wait(timeout=SECONDS)
    assert (outcome.text, session.status, session.metadata) == ("Done.", "idle", {"a": {"bC": 1}})
    (turn,) = await session.turns()
    assert (turn.state, turn.usage and turn.usage.reported) == ("ok", True)
    assert (await session.turn(turn.id)).id == turn.id
    listed = [event async for event in await session.list_events(limit=2)]
    assert [event.raw for event in listed] == [event.raw for event in events]
    assert (await session.event(ran.id)).raw == ran.raw
    again = await oc.sessions.create(agent=agent.id, input=steps, metadata={"a": {"bC": 1}}, key="whole-1")
    assert again.id == session.id
    assert [each.id for each in await oc.sessions.list(key="whole-1")] == [session.id]
    assert (await session.archive()).status == "archived"
    with pytest.raises(ConflictError, match="archived"):
        await session.steer("more")


async def test_what_is_long_is_read_whole(oc: OpenComputer) -> None:
    session = await oc.sessions.create(agent=(await scripted(oc, "output")).id, input="go")
    ran = next(event for event in await followed(session) if isinstance(event, ExecCompleted))
    assert ran.content_ref
    assert len(await session.event_content(ran.id)) >= 100 * 1024 - 100


async def test_a_question_its_answer_and_a_cancel(oc: OpenComputer) -> None:
    session = await oc.sessions.create(agent=(await scripted(oc, "ask-then-echo")).id, input="begin")
    asked = await session.wait(timeout=SECONDS)
    assert (session.status, bool(asked.text)) == ("awaiting_input", True)
    said = await session.steer("blue", idempotency_key="one")
    assert await session.steer("blue", idempotency_key="one") == said
    assert (await session.wait(timeout=SECONDS)).text == "blue"
    hanging = await oc.sessions.create(agent=(await scripted(oc, "hang")).id, input="go")
    async with asyncio.timeout(SECONDS):
        async for event in hanging.events(type="agent.message"):
            assert event.text == "I begin."
            break
    await hanging.cancel()
    stopped = await hanging.wait(timeout=SECONDS)
    assert stopped.last_turn is not None
    assert stopped.last_turn.yield_reason == "canceled"


async def test_who_has_a_token_reads_and_steers_one_session(
    shared_server: ServerProcess, oc: OpenComputer
) -> None:
    agent = await scripted(oc, "echo")
    session = await oc.sessions.create(agent=agent.id, input="hello")
    await session.wait(timeout=SECONDS)
    token = await session.mint_client_token(["read"], ttl_seconds=60)
    async with connect_session(session.id, token, base_url=shared_server.url) as reader:
        assert [event.text for event in await reader.messages()] == ["hello", "hello"]
        with pytest.raises(AuthError) as refused:
            await reader.steer("more")
        assert refused.value.status == 403
    assert session.client_token is not None
    async with connect_session(session.id, session.client_token, base_url=shared_server.url) as both:
        assert (await both.steer("more")).seq > 1
    await session.wait(timeout=SECONDS)


async def test_webhooks_are_kept_changed_and_removed(oc: OpenComputer) -> None:
    session = await oc.sessions.create(agent=(await scripted(oc, "echo")).id, input="hello")
    await session.wait(timeout=SECONDS)
    made = await session.destinations.create("https://93.184.215.14/hook", secret="s", enabled=False)
    assert (made.has_secret, made.level, made.types) == (True, "user", None)
    changed = await session.destinations.update(made.id, types=["turn.*"], level="progress")
    assert (changed.types, changed.level) == (["turn.*"], "progress")
    assert [each.raw for each in await session.destinations.list()] == [changed.raw]
    with pytest.raises(ValidationError) as refused:
        await session.destinations.create("https://127.0.0.1/hook")
    assert refused.value.code == "destination_url_forbidden"
    await session.destinations.delete(made.id)
    assert not (await session.destinations.list()).data
    assert not (await session.deliveries.list()).data


async def test_an_earlier_turn_is_brought_back(oc: OpenComputer) -> None:
    agent = await scripted(oc, "program", keep=5)
    first = program({"bash": "echo one > f"}, {"say": "first"})
    session = await oc.sessions.create(agent=agent.id, input=first)
    await session.wait(timeout=SECONDS)
    assert session.last_turn is not None
    turn = session.last_turn.id
    await session.steer(program({"bash": "echo two >> f"}, {"say": "second"}))
    await session.wait(timeout=SECONDS)
    look = program({"bash": "cat f"}, {"say": "{{result}}"})
    fork = await session.fork(turn)
    assert fork.id != session.id
    assert fork.data.origin == {"session_id": session.id, "turn_id": turn}
    await fork.steer(look)
    assert "two" not in (await fork.wait(timeout=SECONDS)).text
    await session.rewind(turn)
    await session.steer(look)
    told = (await session.wait(timeout=SECONDS)).text
    assert ("one" in told, "two" in told) == (True, False)


async def test_refusals_have_their_kinds(shared_server: ServerProcess, oc: OpenComputer) -> None:
    async with OpenComputer("osb_nobody", base_url=shared_server.url) as stranger:
        with pytest.raises(AuthError):
            await stranger.agents.list()
    with pytest.raises(NotFoundError):
        await oc.sessions.get("ses_none")
    agent = await scripted(oc, "echo")
    with pytest.raises(ValidationError) as empty:
        await oc.sessions.create(agent=agent.id, input="")
    assert (empty.value.status, empty.value.param) == (400, "input")
    with pytest.raises(ValidationError) as other:
        await oc.sessions.create(agent=agent.id, input="x", model="openai/gpt-5")
    assert (other.value.status, other.value.code) == (422, "model_runtime_mismatch")
