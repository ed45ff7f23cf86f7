"""Brains and boxes that do what a test tells them, in place of sandboxes with engines in them.

A behaviour is an async generator of lines: it gets its `Work`, uses the tools of the engine's own desk, and
may end, break off, hang, or wait for the test. Without one, a brain repeats what it was told.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from opencomputer.server.contracts.runtimes import (
    DONE,
    BrainBusy,
    BrainFault,
    BrainHealth,
    BrainLine,
    BrainProgram,
    BrainRequest,
    CommandResult,
    Runtime,
    SkillFile,
    Translated,
)
from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.sessions.events import AGENT_MESSAGE, Json, Level, NewEvent
from opencomputer.server.domain.sessions.session import PinnedAgent, Session, TurnError, Usage
from opencomputer.server.services.sessions.tool_calls import OpenDesk, ToolRequest
from opencomputer.server.services.sessions.tools import Tools
from opencomputer.wire.ids import SessionId
from tests.support.tapped import Tap

Lines = AsyncGenerator[BrainLine]
Behaviour = Callable[["Work"], Lines]


def text(said: str) -> BrainLine:
    return BrainLine("text", {"text": said})


def used(tokens: int, cost: float | None = None) -> BrainLine:
    return BrainLine("usage", {"tokens": tokens, "cost": cost})


def capped() -> BrainLine:
    return BrainLine("capped", {})


def refused(code: str, message: str = "the model refused") -> BrainLine:
    return BrainLine("refused", {"code": code, "message": message})


def done(reason: str = "quiescent", error: object = None) -> BrainLine:
    return BrainLine(DONE, {"reason": reason, **({"error": error} if error is not None else {})})


@dataclass
class Work:
    """One request that a brain works on."""

    request: BrainRequest
    session_id: SessionId
    world: World
    calls: int = 0

    async def tool(self, tool: str, **arguments: Any) -> str:
        """What a tool answers. A desk that is closed answers too."""
        self.calls += 1
        desk = self.world.desk(self.request.mcp_endpoint)
        if desk is None:
            raise ConnectionError("no tools are served")
        return (await desk.call(ToolRequest(self.calls, tool, arguments))).text

    async def say(self, said: str) -> str:
        return await self.tool("say", text=said)

    @property
    def told(self) -> str:
        """What the server itself said beside the inputs."""
        return "\n".join(each for each in self.request.input if each.startswith("[OpenComputer]"))


async def repeating(work: Work) -> Lines:
    yield text("I repeat.")
    await work.say(work.request.input[0])
    yield used(10)
    yield done()


async def hanging(work: Work) -> Lines:
    yield text("I begin.")
    await asyncio.Event().wait()


async def crashing(work: Work) -> Lines:
    yield text("I begin.")
    raise BrainFault("the engine ended")


@dataclass
class _BrainProcess:
    """`stubborn`: goes on when its request is given up, until it is killed."""

    busy: bool = False
    alive: bool = True
    answers: bool = True
    stubborn: bool = False
    killed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class World:
    """What outlives the server's process: the boxes of sessions, and what was done in them."""

    behaviours: deque[Behaviour] = field(default_factory=deque[Behaviour])
    otherwise: Behaviour = repeating
    requests: list[BrainRequest] = field(default_factory=list[BrainRequest])
    effects: list[tuple[SessionId, str]] = field(default_factory=list[tuple[SessionId, str]])
    tools: list[Tools] = field(default_factory=list[Tools])
    commands: dict[str, Callable[[], Any]] = field(default_factory=dict[str, Callable[[], Any]])
    boxes_fail: deque[BaseException] = field(default_factory=deque[BaseException])
    box_delay: float = 0.0
    stubborn: bool = False
    done_to_boxes: list[tuple[str, SessionId]] = field(default_factory=list[tuple[str, SessionId]])
    processes: dict[SessionId, _BrainProcess] = field(default_factory=dict[SessionId, _BrainProcess])
    resting: float = 0
    rest_fails: int = 0
    at_work: defaultdict[SessionId, int] = field(default_factory=lambda: defaultdict[SessionId, int](int))

    def desk(self, url: str) -> OpenDesk | None:
        """The tools that are served there."""
        opened = [each for tools in self.tools for each in tools.__dict__["_open"].values()]
        return next((desk for _, desk in opened if desk.url == url), None)

    def did(self, session_id: SessionId) -> list[str]:
        return [what for what, of in self.done_to_boxes if of == session_id]


class FakeBrain:
    """Implements Brain."""

    def __init__(self, world: World, session_id: SessionId) -> None:
        self._world = world
        self._session_id = session_id
        self._process = world.processes[session_id]

    async def health(self) -> BrainHealth:
        process = self._process
        if not process.alive:
            raise BrainFault("nothing listens")
        if not process.answers:
            await asyncio.Event().wait()
        return BrainHealth(ready=True, busy=process.busy)

    @asynccontextmanager
    async def turn(self, request: BrainRequest) -> AsyncGenerator[AsyncIterator[BrainLine]]:
        process = self._process
        if not process.alive:
            raise BrainFault("nothing listens")
        if process.busy:
            raise BrainBusy
        self._world.requests.append(request)
        behaviour = self._world.behaviours.popleft() if self._world.behaviours else self._world.otherwise
        process.busy = True
        self._world.at_work[self._session_id] += 1
        lines = behaviour(Work(request, self._session_id, self._world))
        try:
            yield _until_killed(lines, process)
        except BrainFault:
            process.alive = False
            raise
        finally:
            self._world.at_work[self._session_id] -= 1
            await lines.aclose()
            if not self._world.stubborn:
                process.busy = False


async def _until_killed(lines: Lines, process: _BrainProcess) -> AsyncIterator[BrainLine]:
    killed = asyncio.create_task(process.killed.wait())
    pending: asyncio.Task[BrainLine] | None = None
    try:
        while True:
            pending = asyncio.create_task(anext(lines))  # pyright: ignore[reportArgumentType] - it is one
            await asyncio.wait({pending, killed}, return_when=asyncio.FIRST_COMPLETED)
            if killed.done():
                raise BrainFault("the engine was killed")
            try:
                line = pending.result()
            except StopAsyncIteration:
                raise BrainFault("the engine broke off") from None
            yield line
            if line.kind == DONE:
                process.busy = False
                return
    finally:
        killed.cancel()
        if pending is not None:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)


class FakeHands:
    """Implements Hands. A command is an effect: it is noted, and answers what the world says."""

    def __init__(self, world: World, session_id: SessionId) -> None:
        self._world = world
        self._session_id = session_id

    lost_before = False

    async def run(self, command: str, *, timeout_seconds: float) -> CommandResult:
        self._world.effects.append((self._session_id, command))
        act = self._world.commands.get(command)
        if act is not None:
            await act()
        return CommandResult(0, command, "", command.encode(), False, 5)

    async def read(self, path: str, *, limit: int) -> bytes:
        return b""

    async def write(self, path: str, content: bytes) -> None:
        self._world.effects.append((self._session_id, path))

    async def list(self, path: str) -> Sequence[Mapping[str, Any]]:
        return []


class FakeBoxes:
    """Implements BrainBoxes."""

    def __init__(self, world: World, tap: Tap | None = None) -> None:
        self._world = world
        self._tap = tap or Tap()

    async def brain(self, session: Session, runtime: Runtime) -> FakeBrain:
        self._world.done_to_boxes.append(("brain", session.id))
        await asyncio.sleep(self._world.box_delay)
        if self._world.boxes_fail:
            raise self._world.boxes_fail.popleft()
        process = self._world.processes.get(session.id)
        if process is None or not process.alive:
            self._world.processes[session.id] = _BrainProcess()
        return FakeBrain(self._world, session.id)

    async def kill_brain(self, session: Session) -> None:
        self._world.done_to_boxes.append(("kill", session.id))
        process = self._world.processes.get(session.id)
        if process is not None:
            process.alive, process.busy = False, False
            process.killed.set()

    async def hands(self, session: Session) -> FakeHands:
        self._world.done_to_boxes.append(("hands", session.id))
        return self._tap.through(FakeHands(self._world, session.id))

    async def keep_state(self, session: Session, turn_id: str) -> bool:
        self._world.done_to_boxes.append(("keep", session.id))
        if session.id not in self._world.processes:
            raise OpenComputerError("no brain")
        return True

    async def checkpoint(self, session: Session, turn_id: str) -> str | None:
        return None

    async def rest(self, session: Session) -> None:
        with self._alone(session):
            self._world.done_to_boxes.append(("rest", session.id))
            await asyncio.sleep(self._world.resting)
            if self._world.rest_fails:
                self._world.rest_fails -= 1
                raise OpenComputerError("it does not sleep")

    async def destroy(self, session: Session) -> None:
        with self._alone(session):
            self._world.done_to_boxes.append(("destroy", session.id))
            self._world.processes.pop(session.id, None)

    @contextmanager
    def _alone(self, session: Session) -> Any:
        assert not self._world.at_work[session.id], "boxes are put to rest while a turn runs"
        yield
        assert not self._world.at_work[session.id], "a turn began while boxes are put to rest"


class FakeRuntime:
    """Implements Runtime."""

    name = "scripted"
    providers = frozenset({"anthropic"})
    takes_skills = False

    def program(self, agent: PinnedAgent, skills: Sequence[SkillFile]) -> BrainProgram:
        return BrainProgram(("brain",))

    def endpoint(self, gateway_url: str) -> Json:
        return {"base_url": gateway_url}

    def system_prompt(self, agent: PinnedAgent) -> str:
        return agent.prompt

    def translator(self) -> FakeTranslator:
        return FakeTranslator()


class FakeTranslator:
    """Implements Translator for the lines above."""

    def translate(self, line: BrainLine) -> Translated:
        message = line.message
        match line.kind:
            case "text":
                event = NewEvent(AGENT_MESSAGE, Level.PROGRESS, {"text": message["text"]})
                return Translated((event,), text=message["text"])
            case "usage":
                return Translated(usage=Usage(output_tokens=message["tokens"], cost_usd=message["cost"]))
            case "capped":
                return Translated(step_cap=True)
            case "refused":
                return Translated(error=TurnError(message["code"], message["message"]))
            case _:
                return Translated()
