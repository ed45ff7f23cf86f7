"""Sessions with boxes, over machines in memory whose programs do what brains and archivers do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

from opencomputer.server.contracts.machine import ExitStatus, Machine, ProcessRecord
from opencomputer.server.contracts.runtimes import (
    Brain,
    BrainFault,
    BrainHealth,
    BrainLine,
    BrainProgram,
    BrainRequest,
    SkillFile,
    Translator,
)
from opencomputer.server.contracts.sessions import SessionTables
from opencomputer.server.domain.sandbox import Sandbox
from opencomputer.server.domain.sessions.events import EventFilter, Json
from opencomputer.server.domain.sessions.session import PinnedAgent, Session
from opencomputer.server.services.sessions.boxes import BoxParts, SessionBoxes
from opencomputer.server.services.sessions.boxes_brains import BrainProcesses
from opencomputer.server.services.sessions.boxes_sandboxes import Role, SessionSandboxes, box_of
from opencomputer.server.services.sessions.boxes_state import ARCHIVE
from opencomputer.server.services.sessions.boxes_upkeep import BoxUpkeep
from opencomputer.server.services.sessions.kept import KeptTurns
from opencomputer.server.stores.artefacts.brain_states import BlobBrainStates
from opencomputer.wire.ids import OrgId
from tests.support.memory.machines import MemoryMachine
from tests.support.memory.processes import MemoryProcess
from tests.support.sessions import AT, stored_sessions
from tests.unit.server.services.harness import ORG, Node, Process

STATE = "state"
"""In the folder of a machine's brain, as far as these tests go."""


class SkippingClock:
    """Implements Clock. Sleeping takes no time: the rest of the day comes earlier."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def now(self) -> datetime:
        return AT + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self._skipped

    async def sleep(self, seconds: float) -> None:
        self._skipped += seconds
        await asyncio.sleep(0)


class FewAgents:
    """Implements AgentDirectory, as far as boxes need it."""

    def __init__(self) -> None:
        self.files: Sequence[SkillFile] = ()

    async def pin(
        self, org_id: OrgId, agent: str, *, revision: int | str | None = None, model: str | None = None
    ) -> PinnedAgent:
        raise NotImplementedError

    async def skills(self, org_id: OrgId, agent: PinnedAgent) -> Sequence[SkillFile]:
        return self.files

    async def is_deleted(self, org_id: OrgId, agent: PinnedAgent) -> bool:
        return False


class FewRuntime:
    """Implements Runtime, as far as boxes need it."""

    name = "claude"
    providers = frozenset({"anthropic"})
    takes_skills = True

    def __init__(self) -> None:
        self.extra = b""

    def program(self, agent: PinnedAgent, skills: Sequence[SkillFile]) -> BrainProgram:
        files = {f"/skills/{each.path}": each.content for each in skills}
        return BrainProgram(("brain", "claude"), {"LANG": "C"}, {"/brain/setup": b"x" + self.extra, **files})

    def endpoint(self, gateway_url: str) -> Json:
        return {}

    def system_prompt(self, agent: PinnedAgent) -> str:
        return agent.prompt

    def translator(self) -> Translator:
        raise NotImplementedError


@dataclass
class Programs:
    """What programs do in every machine. `brain_end`: how brains end as soon as they are started."""

    brain_end: ExitStatus | None = None
    hung: bool = False
    warm: bool = True
    busy: bool = False
    pack_code: int = 0
    started: list[MemoryProcess] = field(default_factory=list[MemoryProcess])

    def run(self, machine: MemoryMachine, process: MemoryProcess) -> None:
        argv = process.spec.argv
        if argv[0] == "brain":
            self.started.append(process)
            if self.brain_end is not None:
                process.output(2, b"no such module")
                process.end(self.brain_end)
        elif argv[0] == "/bin/sh" and "--create" in argv[2]:
            self._pack(machine, process)
        elif argv[0] == "/bin/sh" and "--extract" in argv[2]:
            machine.writable[STATE] = machine.files.content.pop(ARCHIVE).decode()
            process.end()
        elif argv[0] == "bash":
            process.output(1, b"out of " + argv[2].encode())
            process.end()
        else:
            process.end()

    def _pack(self, machine: MemoryMachine, process: MemoryProcess) -> None:
        if self.pack_code or STATE not in machine.writable:
            process.end(ExitStatus(self.pack_code or 3))
            return
        machine.files.content[ARCHIVE] = machine.writable[STATE].encode()
        process.end()


class MemoryBrain:
    """Implements Brain: there as long as its process is."""

    def __init__(self, machine: MemoryMachine, programs: Programs) -> None:
        self._machine = machine
        self._programs = programs

    @property
    def _runs(self) -> bool:
        records = [each.record for each in self._machine.processes.by_id.values()]
        return any("oc.brain" in record.labels and record.exit is None for record in records)

    async def health(self) -> BrainHealth:
        if not self._runs or self._programs.hung or self._machine.lost:
            raise BrainFault
        return BrainHealth(ready=self._programs.warm, busy=self._programs.busy)

    @asynccontextmanager
    async def turn(self, request: BrainRequest) -> AsyncGenerator[AsyncIterator[BrainLine]]:
        yield _lines()


async def _lines() -> AsyncIterator[BrainLine]:
    yield BrainLine("done", {"reason": "quiescent"})


@dataclass
class World:
    node: Node
    process: Process
    tables: SessionTables
    clock: SkippingClock
    boxes: SessionBoxes
    sandboxes: SessionSandboxes
    states: BlobBrainStates
    kept: KeptTurns
    upkeep: BoxUpkeep
    programs: Programs
    agents: FewAgents
    parts: BoxParts
    runtime: FewRuntime = field(default_factory=FewRuntime)

    async def session(self, session: Session) -> Session:
        found = await self.tables.sessions.find(session.id)
        assert found is not None
        return found

    async def brain(self, session: Session) -> Brain:
        return await self.boxes.brain(await self.session(session), self.runtime)

    async def sandbox(self, session: Session, role: Role) -> Sandbox:
        sandbox_id = box_of((await self.session(session)).boxes, role)
        assert sandbox_id is not None
        return self.node.tables.sandboxes[sandbox_id]

    async def machine(self, session: Session, role: Role) -> MemoryMachine:
        return self.node.machine_of(await self.sandbox(session, role))

    async def told(self, session: Session) -> list[tuple[str, str]]:
        """What the log says of its sandboxes: event and role."""
        events = await self.tables.log.read(session.id, EventFilter(type="sandbox.*"), after=0, limit=100)
        return [(each.type, each.body["sandbox"]) for each in events]

    def brains(self) -> list[ProcessRecord]:
        """Brains that run right now, in any machine."""
        return [each.record for each in self.programs.started if each.exit is None and each.loss is None]


@asynccontextmanager
async def world(folder: Path, node: Node | None = None) -> AsyncGenerator[World]:
    node = node or Node(folder)
    async with stored_sessions(folder, ORG) as tables, node.process() as process:
        yield make_world(node, process, tables, folder)


def make_world(node: Node, process: Process, tables: SessionTables, folder: Path) -> World:
    programs, agents, clock = Programs(), FewAgents(), SkippingClock()

    async def install(step: str, machine_id: Any) -> None:
        if step == "identify":
            machine = node.host.machines[machine_id]
            machine.processes.program = lambda started: programs.run(machine, started)

    node.host.before = install

    def dial(machine: Machine) -> Brain:
        return MemoryBrain(cast("MemoryMachine", machine), programs)

    sandboxes = SessionSandboxes(
        process.lifecycle, process.reach, process.hibernation, tables.sessions, process.clock
    )
    states = BlobBrainStates(folder / "states")
    kept = KeptTurns(tables.sessions, states, process.checkpoints, process.snapshots)
    brains = BrainProcesses(dial, clock)
    parts = BoxParts(sandboxes, brains, states, kept, agents, process.clock)
    upkeep = BoxUpkeep(process.sandboxes, process.lifecycle, tables.sessions, clock)
    return World(
        node,
        process,
        tables,
        clock,
        SessionBoxes(parts),
        sandboxes,
        states,
        kept,
        upkeep,
        programs,
        agents,
        parts,
    )
