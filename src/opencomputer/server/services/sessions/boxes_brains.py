"""Brains in their machines: programs that are started, watched, and started again."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.machine import (
    Machine,
    Output,
    ProcessKind,
    ProcessRecord,
    ProcessSpec,
)
from opencomputer.server.contracts.runtimes import (
    BRAIN_PORT,
    STATE_FOLDER,
    Brain,
    BrainFault,
    BrainHealth,
    BrainLine,
    BrainNotReady,
    BrainProgram,
    BrainRequest,
)
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import (
    GuestFault,
    MachineLost,
    NotFound,
    NothingListens,
    OpenComputerError,
    ProgramFault,
    ProgramSilent,
)
from opencomputer.server.services.sandboxes.live import LiveSandbox

_log = structlog.get_logger(__name__)

DialBrain = Callable[[Machine], Brain]
"""Gives the brain of a machine; nothing is connected by that."""

START_SECONDS = 30.0
_LABEL = "oc.brain"
_POLL_SECONDS = (0.01, 0.02, 0.05, 0.1)
_MISSES = 3
_KILL = 9
_END_SECONDS = 5.0
_SCROLLBACK_BYTES = 64 << 10
_SHOWN_CHARACTERS = 400
_TROUBLE = (MachineLost, GuestFault, NothingListens, ProgramFault, ProgramSilent)


class BrainProcesses:
    """Starts and ends the brain of a machine. There is never more than one."""

    def __init__(self, dial: DialBrain, clock: Clock) -> None:
        self._dial = dial
        self._clock = clock

    async def ready(self, live: LiveSandbox, program: BrainProgram) -> Brain:
        """The brain that this program makes, ready; one that runs already is not disturbed.

        Raises BrainNotReady, MachineLost.
        """
        brain = self._dial(live.machine)
        with live.activity.request():
            digest = program_digest(program)
            running = await _running(live.machine)
            fitting = next((each for each in running if each.labels[_LABEL] == digest), None)
            await self._end([each for each in running if each is not fitting], live.machine)
            if fitting is not None and not await self._is_alive(brain):
                _log.warning("a brain does not answer; it is started anew", sandbox=live.id)
                await self._end([fitting], live.machine)
                fitting = None
            process_id = fitting.id if fitting else await self._start(live.machine, program, digest)
            await self._await_ready(live.machine, brain, process_id)
        return _UsedBrain(brain, live)

    async def warm_up(self, machine: Machine, program: BrainProgram) -> None:
        """Start a brain in a machine that is nobody's yet, and wait until it is ready.

        `ready` finds it there. Raises BrainNotReady, MachineLost.
        """
        process_id = await self._start(machine, program, program_digest(program))
        await self._await_ready(machine, self._dial(machine), process_id)

    async def kill(self, live: LiveSandbox) -> None:
        """End the brain at once, with everything it has started. Raises MachineLost."""
        await self._end(await _running(live.machine), live.machine)

    async def _is_alive(self, brain: Brain) -> bool:
        for _ in range(_MISSES):
            with suppress(BrainFault, *_TROUBLE):
                await brain.health()
                return True
        return False

    async def _start(self, machine: Machine, program: BrainProgram, digest: str) -> str:
        for path, content in program.files.items():
            await machine.files.write(path, _whole(content), size_hint=len(content))
        await machine.files.make_directory(STATE_FOLDER)
        spec = ProcessSpec(
            id=naming.new_process_id(),
            kind=ProcessKind.RUN,
            argv=tuple(program.argv),
            environment={**program.environment, "OC_BRAIN_PORT": str(BRAIN_PORT)},
            scrollback_bytes=_SCROLLBACK_BYTES,
            labels={_LABEL: digest},
        )
        return (await machine.processes.spawn(spec)).id

    async def _await_ready(self, machine: Machine, brain: Brain, process_id: str) -> None:
        deadline = self._clock.monotonic() + START_SECONDS
        pauses = iter(_POLL_SECONDS)
        pause = next(pauses)
        while True:
            with suppress(BrainFault, *_TROUBLE):
                if (await brain.health()).ready:
                    return
            # Raises MachineLost where that is why it did not answer.
            record = await machine.processes.get(process_id)
            if record.exit is not None:
                raise BrainNotReady(f"the agent's engine ended at its start: {await _said(machine, record)}")
            if self._clock.monotonic() >= deadline:
                await self._end([record], machine)
                raise BrainNotReady(f"the agent's engine was not ready within {START_SECONDS:.0f} s")
            await self._clock.sleep(pause)
            pause = next(pauses, pause)

    async def _end(self, records: Sequence[ProcessRecord], machine: Machine) -> None:
        """Kill processes, and wait until they have ended: their port is free then."""
        for record in records:
            with suppress(NotFound):
                await machine.processes.signal(record.id, _KILL)
        deadline = self._clock.monotonic() + _END_SECONDS
        while any(each.id in {one.id for one in records} for each in await _running(machine)):
            if self._clock.monotonic() >= deadline:
                raise BrainNotReady("an earlier engine of this agent does not end")
            await self._clock.sleep(_POLL_SECONDS[0])


class _UsedBrain:
    """A brain whose sandbox counts as used while it works, and whose troubles all are BrainFault."""

    def __init__(self, brain: Brain, live: LiveSandbox) -> None:
        self._brain = brain
        self._live = live

    async def health(self) -> BrainHealth:
        try:
            return await self._brain.health()
        except _TROUBLE as error:
            raise BrainFault(error.message) from error

    def turn(self, request: BrainRequest) -> AbstractAsyncContextManager[AsyncIterator[BrainLine]]:
        return self._turn(request)

    @asynccontextmanager
    async def _turn(self, request: BrainRequest) -> AsyncGenerator[AsyncIterator[BrainLine]]:
        async with AsyncExitStack() as stack:
            stack.enter_context(self._live.activity.request())
            try:
                lines = await stack.enter_async_context(self._brain.turn(request))
            except _TROUBLE as error:
                raise BrainFault(error.message) from error
            yield _translated(lines)


async def _translated(lines: AsyncIterator[BrainLine]) -> AsyncIterator[BrainLine]:
    try:
        async for line in lines:
            yield line
    except _TROUBLE as error:
        raise BrainFault(error.message) from error


def program_digest(program: BrainProgram) -> str:
    """The same for programs that are started in the same way from the same files."""
    digest = hashlib.sha256()
    parts = [*program.argv, "\0", *(f"{name}={value}" for name, value in sorted(program.environment.items()))]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part.encode())
    for path, content in sorted(program.files.items()):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:32]


async def _running(machine: Machine) -> Sequence[ProcessRecord]:
    records = await machine.processes.list()
    return [each for each in records if _LABEL in each.labels and each.exit is None]


async def _said(machine: Machine, record: ProcessRecord) -> str:
    """The end of what a program has written, or why there is none."""
    if record.exit is not None and record.exit.error:
        return record.exit.error
    heard = bytearray()
    with suppress(OpenComputerError):
        async with machine.processes.attach(record.id) as attachment:
            async for event in attachment:
                if isinstance(event, Output):
                    heard += event.data
    code = None if record.exit is None else record.exit.code
    return heard.decode(errors="replace").strip()[-_SHOWN_CHARACTERS:] or f"exit code {code}"


async def _whole(content: bytes) -> AsyncIterator[bytes]:
    yield content
