"""Tools of a turn: what they do, what the log says of them, and when, whatever becomes of the turn."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from opencomputer.server.contracts.runtimes import CommandResult, Hands
from opencomputer.server.contracts.tools import ToolScope
from opencomputer.server.domain.errors import MachineLost, NoCapacity, NotFound
from opencomputer.server.domain.sessions.events import (
    AGENT_MESSAGE,
    EXEC_COMPLETED,
    TOOL_CALL,
    TOOL_RESULT,
    Level,
)
from opencomputer.server.domain.sessions.session import Session, Turn
from opencomputer.server.domain.sessions.tool_events import interruption
from opencomputer.server.services.sessions.tool_calls import OVER, OpenDesk, ToolRequest
from opencomputer.server.services.sessions.tool_kinds import MODEL_BYTES, ToolAnswer
from opencomputer.server.services.sessions.tools import Tools
from tests.support.durable import MemoryHands, MemoryLog, a_session, a_turn, printed
from tests.support.hand_clock import HandClock
from tests.unit.server.services.harness import ORG

pytestmark = pytest.mark.anyio


@dataclass
class World:
    """One turn, and the tools that are served for it."""

    hands: MemoryHands = field(default_factory=MemoryHands)
    session: Session = field(default_factory=lambda: a_session(ORG))
    level: Level = Level.INTERNAL

    def __post_init__(self) -> None:
        self.clock = HandClock()
        self.turn: Turn = a_turn(self.session)
        self.log = MemoryLog(self.turn)
        self.tools = Tools(self.clock, self.level)
        self.ids = 0
        self.asked_for_hands = 0
        self.refusing: Exception | None = None

    async def _hands(self) -> Hands:
        self.asked_for_hands += 1
        if self.refusing is not None:
            raise self.refusing
        return self.hands

    @asynccontextmanager
    async def open(self, *, seconds: float = 1800, attempt: int = 1) -> AsyncGenerator[OpenDesk]:
        deadline = self.clock.now() + timedelta(seconds=seconds)
        turn = replace(self.turn, attempt=attempt)
        async with self.tools.open(ToolScope(self.session, turn, self.log, self._hands, deadline)) as desk:
            yield desk

    async def use(self, desk: OpenDesk, tool: str, **arguments: Any) -> ToolAnswer:
        self.ids += 1
        return await desk.call(ToolRequest(self.ids, tool, arguments))


@pytest.fixture
def world() -> World:
    return World()


async def test_a_command_is_noted_before_it_runs_and_its_end_after(world: World) -> None:
    async def run(command: str, seconds: float) -> CommandResult:
        assert world.log.types == [TOOL_CALL]
        return CommandResult(3, "out", "err", b"outerr", False, 7)

    world.hands = MemoryHands(run)
    async with world.open() as desk:
        answer = await world.use(desk, "bash", command="make\n  test")
    assert answer == ToolAnswer("exit code 3\nstdout:\nout\nstderr:\nerr")
    [call], [ended] = world.log.of(TOOL_CALL), world.log.of(EXEC_COMPLETED)
    assert call == {"tool": "bash", "args_summary": "make test", "input": {"command": "make\n  test"}}
    assert ended == {
        "command": "make\n  test",
        "exit_code": 3,
        "summary": "outerr",
        "duration_ms": 7,
        "output": "outerr",
    }
    assert {event.level for event in world.log.events} == {Level.INTERNAL}
    assert len({str(event.refs) for event in world.log.events}) == 1


async def test_one_setting_shows_tool_events_to_those_who_follow_the_progress() -> None:
    world = World(level=Level.PROGRESS)
    async with world.open() as desk:
        await world.use(desk, "bash", command="true")
        await world.use(desk, "say", text="hello")
    assert [event.level for event in world.log.events] == [Level.PROGRESS, Level.PROGRESS, Level.USER]


async def test_a_long_output_is_kept_whole_and_shown_in_part(world: World) -> None:
    text = "x" * 100_000
    world.hands = MemoryHands(lambda command, seconds: _soon(printed(text)))
    async with world.open() as desk:
        answer = await world.use(desk, "bash", command="yes")
    assert len(answer.text.encode()) < MODEL_BYTES + 100
    assert world.log.of(EXEC_COMPLETED)[0]["bytes"] == 100_000


@pytest.mark.parametrize(
    ("wanted", "left", "got"), [(None, 1800, 600), (30, 1800, 30), (99_999, 1800, 600), (None, 50, 50)]
)
async def test_a_command_has_ten_minutes_or_what_is_left_of_the_turn(
    world: World, wanted: float | None, left: float, got: float
) -> None:
    async with world.open(seconds=left) as desk:
        await world.use(desk, "bash", command="true", **({"timeout": wanted} if wanted else {}))
    assert world.hands.commands == [("true", got)]


async def test_a_command_that_took_too_long_is_an_error_for_the_model(world: World) -> None:
    world.hands = MemoryHands(lambda command, seconds: _soon(printed("half", 137, timed_out=True)))
    async with world.open() as desk:
        answer = await world.use(desk, "bash", command="sleep 99", timeout=2)
    assert answer.is_error
    assert "more than 2 seconds" in answer.text
    assert world.log.of(EXEC_COMPLETED)[0]["timed_out"] is True


async def test_files_are_written_listed_and_read(world: World) -> None:
    async with world.open() as desk:
        assert (await world.use(desk, "write", path="/workspace/a", content="é")).text == "wrote 2 bytes"
        assert (await world.use(desk, "ls")).text == "a (2 bytes)"
        assert (await world.use(desk, "read", path="/workspace/a")).text == "é"
        missing = await world.use(desk, "read", path="/nothing")
    assert missing == ToolAnswer("There is no such file or directory.", is_error=True)
    assert world.log.types == [TOOL_CALL, TOOL_RESULT] * 4
    results = world.log.of(TOOL_RESULT)
    assert [result["tool"] for result in results] == ["write", "ls", "read", "read"]
    assert [result.get("is_error", False) for result in results] == [False, False, False, True]


async def test_a_large_file_and_one_that_is_no_text_are_not_given_to_the_model(world: World) -> None:
    world.hands.files = {"/large": b"y" * (MODEL_BYTES + 9), "/binary": b"\x7fELF\0"}
    async with world.open() as desk:
        large = await world.use(desk, "read", path="/large")
        binary = await world.use(desk, "read", path="/binary")
    assert large.text.startswith("y" * MODEL_BYTES + "\n[")
    assert binary.is_error


@pytest.mark.parametrize(
    ("tool", "arguments", "fault"),
    [
        ("rm", {}, "there is no tool of this name"),
        ("bash", {}, "command: Field required"),
        ("bash", {"command": 7}, "command: "),
        ("bash", {"command": "x" * 200_000}, "write a script"),
        ("bash", {"command": "a\0b"}, "NUL"),
        ("bash", {"command": "a", "timeout": -1}, "timeout: "),
        ("bash", {"command": "a", "timeout": float("nan")}, "timeout: "),
        ("read", {"path": ""}, "path: "),
        ("read", {"path": "/" + "d" * 5000}, "4096"),
        ("write", {"path": "/a", "content": "\ud800"}, "Unicode"),
        ("say", {"text": "x" * 300_000}, "262144"),
    ],
)
async def test_what_cannot_be_done_is_refused_by_name_and_leaves_no_trace(
    world: World, tool: str, arguments: dict[str, Any], fault: str
) -> None:
    async with world.open() as desk:
        answer = await world.use(desk, tool, **arguments)
    assert answer.is_error
    assert fault in answer.text
    assert world.log.events == []


async def test_the_same_request_again_is_answered_again_and_not_carried_out_again(world: World) -> None:
    bash, say = ToolRequest(1, "bash", {"command": "date"}), ToolRequest(2, "say", {"text": "hi"})
    async with world.open() as desk:
        answers = [await desk.call(bash), *await asyncio.gather(desk.call(bash), desk.call(bash))]
        said = [await desk.call(say), await desk.call(say)]
        other = await desk.call(replace(bash, meta={"toolUseId": "2"}))
    assert len({answer.text for answer in answers}) == 1
    assert said[0] == said[1] == ToolAnswer("sent")
    assert other == answers[0]
    assert len(world.hands.commands) == 2
    assert len(world.log.of(AGENT_MESSAGE)) == 1


async def test_the_last_message_is_the_result(world: World) -> None:
    async with world.open() as desk:
        assert desk.result_event_id is None
        await world.use(desk, "say", text="one")
        await world.use(desk, "say", text="two")
    assert desk.result_event_id == world.log.events[-1].id
    assert world.log.of(AGENT_MESSAGE) == [{"text": "one"}, {"text": "two"}]
    assert not desk.asked


async def test_a_question_is_the_end_of_the_work(world: World) -> None:
    async with world.open() as desk:
        await world.use(desk, "ask", text="which?")
        late = [await world.use(desk, "bash", command="true"), await world.use(desk, "say", text="and?")]
    assert desk.asked
    assert desk.result_event_id == world.log.events[-1].id
    assert world.log.of(AGENT_MESSAGE) == [{"text": "which?", "awaiting_input": True}]
    assert all(answer.is_error for answer in late)
    assert world.hands.commands == []


async def test_what_an_attempt_says_again_is_not_said_twice(world: World) -> None:
    async with world.open() as desk:
        for text in ("done", "done", "more"):
            await world.use(desk, "say", text=text)
    async with world.open() as desk:
        await world.use(desk, "say", text="done")
    assert Counter(body["text"] for body in world.log.of(AGENT_MESSAGE)) == {"done": 3, "more": 1}
    async with world.open(attempt=2) as desk:
        for text in ("done", "more", "new"):
            await world.use(desk, "say", text=text)
    assert Counter(body["text"] for body in world.log.of(AGENT_MESSAGE)) == {"done": 3, "more": 1, "new": 1}


async def test_a_very_long_message_is_kept_whole(world: World) -> None:
    async with world.open() as desk:
        assert not (await world.use(desk, "say", text="z" * 200_000)).is_error
    assert len(world.log.of(AGENT_MESSAGE)[0]["text"]) < 32 << 10


async def test_a_call_in_flight_when_the_turn_ends_is_noted_as_unknown(world: World) -> None:
    running = asyncio.Event()

    async def hang(command: str, seconds: float) -> CommandResult:
        running.set()
        await asyncio.sleep(3600)
        raise AssertionError

    world.hands = MemoryHands(hang)
    async with world.open() as desk:
        call = asyncio.create_task(world.use(desk, "bash", command="deploy"))
        await running.wait()
    assert (await call).is_error
    [result] = world.log.of(TOOL_RESULT)
    assert result["unknown"] is True
    assert world.log.types == [TOOL_CALL, TOOL_RESULT]
    assert await world.use(desk, "bash", command="true") == OVER
    past = interruption(world.log.events)
    assert past.notes() == []
    assert "- bash: deploy" in str(past.text())


async def test_a_caller_that_goes_does_not_end_its_call(world: World) -> None:
    running, go_on = asyncio.Event(), asyncio.Event()

    async def slow(command: str, seconds: float) -> CommandResult:
        running.set()
        await go_on.wait()
        return printed("there")

    world.hands = MemoryHands(slow)
    request = ToolRequest(1, "bash", {"command": "slow"})
    async with world.open() as desk:
        impatient = asyncio.create_task(desk.call(request))
        await running.wait()
        impatient.cancel()
        again = asyncio.create_task(desk.call(request))
        await asyncio.sleep(0)
        go_on.set()
        assert "there" in (await again).text
    assert len(world.hands.commands) == 1


async def test_lost_hands_are_told_and_the_next_call_gets_new_ones(world: World) -> None:
    async def lose(command: str, seconds: float) -> CommandResult:
        raise MachineLost

    world.hands = MemoryHands(lose)
    async with world.open() as desk:
        lost = await world.use(desk, "bash", command="make")
        world.hands = MemoryHands(lost_before=True)
        first, second = [await world.use(desk, "bash", command="ls") for _ in range(2)]
    assert "unknown" in lost.text
    assert world.log.of(TOOL_RESULT)[0]["unknown"] is True
    assert "there is a new one" in first.text
    assert "there is a new one" not in second.text
    assert world.asked_for_hands == 2


async def test_hands_that_cannot_be_had_are_an_error_of_that_call(world: World) -> None:
    async with world.open() as desk:
        world.refusing = NoCapacity()
        refused = await world.use(desk, "bash", command="true")
        world.refusing = None
        assert not (await world.use(desk, "bash", command="true")).is_error
    assert refused.is_error
    assert "capacity" in refused.text.lower()
    assert world.log.of(TOOL_RESULT)[0].get("unknown") is None


async def test_an_attempt_that_is_fenced_does_nothing_and_says_nothing(world: World) -> None:
    async with world.open() as desk:
        world.log.fenced = True
        answers = [await world.use(desk, "bash", command="rm -r /"), await world.use(desk, "say", text="hi")]
    assert answers == [OVER, OVER]
    assert world.hands.commands == []
    assert world.log.events == []


async def test_what_cannot_be_noted_is_not_done(world: World) -> None:
    async with world.open() as desk:
        world.log.failing = RuntimeError("no database")
        failed = await world.use(desk, "bash", command="true")
        world.log.failing = RuntimeError("no database")
        unsaid = await world.use(desk, "ask", text="?")
        assert not desk.asked
    assert failed.is_error
    assert unsaid.is_error
    assert world.hands.commands == []


async def test_a_brain_cannot_use_tools_without_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opencomputer.server.services.sessions.tool_calls._MOST_CALLS", 3)
    monkeypatch.setattr("opencomputer.server.services.sessions.tool_calls._KEPT_CHARACTERS", 40)
    request = ToolRequest("a", "bash", {"command": "x" * 30})
    async with world.open() as desk:
        await desk.call(request)
        for _ in range(2):
            assert not (await world.use(desk, "bash", command="y" * 30)).is_error
        assert (await world.use(desk, "bash", command="z")).is_error
        assert (await desk.call(request)).is_error
    assert len(world.hands.commands) == 3


async def test_only_the_brain_of_the_session_finds_its_tools(world: World) -> None:
    box = _Box(world.session)
    async with world.open() as desk:
        token = desk.url.split("/")[-2]
        assert desk.url == f"http://169.254.169.254/v1/tools/{token}/mcp"
        assert world.tools.find(box.brain(), token) is desk
        strangers = [
            (box.brain(org_id="other"), token),
            (box.brain(role="hands"), token),
            (box.brain(session_id="ses_other"), token),
            (box.brain(), token[:-1]),
            (box.brain(), ""),
        ]
        for stranger, guess in strangers:
            with pytest.raises(NotFound):
                world.tools.find(stranger, guess)
    with pytest.raises(NotFound):
        world.tools.find(box.brain(), token)


@dataclass
class _Box:
    session: Session

    def brain(self, *, org_id: str = ORG, role: str = "brain", session_id: str | None = None) -> Any:
        @dataclass
        class Labelled:
            org_id: str
            metadata: dict[str, str]

        return Labelled(org_id, {"oc.session": session_id or self.session.id, "oc.role": role})


async def _soon(result: CommandResult) -> CommandResult:
    return result
