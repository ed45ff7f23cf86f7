"""One running machine: a driver's `Running` and the link to its guest, composed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from opencomputer.inside.guest import protocol
from opencomputer.inside.guest.protocol import JsonObject, ProtocolError
from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.driver import (
    DriverRecord,
    Limits,
    MachineId,
    Running,
    Stillness,
    Usage,
)
from opencomputer.server.contracts.machine import Connection, Files, Identity, Processes
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.domain.errors import (
    GuestFault,
    InvalidInput,
    MachineLost,
    NotReady,
    OpenComputerError,
    SnapshotRefused,
)
from opencomputer.server.host.tasks import finish
from opencomputer.server.machines.dialling import dialled
from opencomputer.server.machines.dozing import Dozing
from opencomputer.server.machines.files import LinkFiles
from opencomputer.server.machines.link import REQUEST_SECONDS, Link
from opencomputer.server.machines.processes import LinkProcesses

_IDLE_ANSWER_SECONDS = 10.0
_UNSURE_SECONDS = 3.0
"""How long something may take of which not much depends on its being done."""


class LinkedMachine:
    """Implements `Machine`. Made by `Launcher`."""

    def __init__(self, running: Running, link: Link, clock: Clock) -> None:
        self._running = running
        self._link = link
        self._clock = clock
        self._dozing = Dozing(running, clock, self._has_processes)
        self._processes = LinkProcesses(link, self._dozing)
        self._files = LinkFiles(link, self._dozing)
        self._paused = AsyncExitStack()
        self._lost = False
        self._watcher = asyncio.create_task(self._watch())

    @property
    def id(self) -> MachineId:
        return self._running.record.machine_id

    @property
    def record(self) -> DriverRecord:
        return self._running.record

    @property
    def processes(self) -> Processes:
        return self._processes

    @property
    def files(self) -> Files:
        return self._files

    @property
    def address(self) -> str:
        return self._running.guest_address[0]

    @property
    def lost(self) -> bool:
        return self._lost

    @property
    def frozen(self) -> bool:
        return self._dozing.frozen

    async def connect(self, seconds: float) -> None:
        """Wait until the guest answers. Raises GuestFault, or MachineLost when the machine has ended."""
        async with self._dozing.awake():
            await self._link.connect(seconds)

    async def identify(self, identity: Identity) -> None:
        self._link.expect_token(identity.token)
        async with self._dozing.awake():
            await self._link.call(
                "identify",
                {
                    "sandbox_id": identity.sandbox_id,
                    "hostname": identity.hostname,
                    "machine_id": identity.machine_id,
                    "token": identity.token,
                    "entropy": identity.entropy.hex(),
                    "environment": dict(identity.environment),
                    "workdir": identity.workdir,
                    "boot_id": identity.boot_id,
                    "generation": identity.generation,
                    "copied": identity.copied,
                    "trust": identity.trust,
                    "memory_bytes": identity.memory_bytes,
                    "processors": identity.processors,
                    "now": self._clock.now().timestamp(),
                },
            )
        self._link.settle_token(identity.token)

    def dial(self, port: int) -> AbstractAsyncContextManager[Connection]:
        return dialled(self._link, self._dozing, port)

    async def rest(self) -> None:
        await self._dozing.rest()

    async def save(self, folder: Path, *, memory: bool = True, go_on: bool = True) -> None:
        async with AsyncExitStack() as paused:
            await paused.enter_async_context(self._dozing.awake())
            still = partial(self._still, paused, memory=memory, go_on=go_on)
            try:
                await self._running.save(folder, memory=memory, go_on=go_on, still=still)
            except SnapshotRefused as refused:
                raise await self._with_holder(refused) from None
            if not go_on:
                self._paused = paused.pop_all()

    @asynccontextmanager
    async def _still(self, paused: AsyncExitStack, *, memory: bool, go_on: bool) -> AsyncGenerator[Stillness]:
        """Hold the user's processes, and be without a connection: a restored machine would find one that no
        longer exists, and the runtime makes its guest spin.

        Files alone are worth saving of a machine whose guest does not answer, too.
        """
        holds, stillness = False, Stillness()

        async def let_go() -> None:
            # To the end, cancelled or not: nobody else would.
            patience = REQUEST_SECONDS if memory else _UNSURE_SECONDS
            await finish(self.release() if holds else self._release_if_it_answers(patience))

        async with AsyncExitStack() as held:
            held.push_async_callback(let_go)
            try:
                seconds = None if memory else _UNSURE_SECONDS
                answer = await held.enter_async_context(self._link.apart("hold", seconds=seconds))
                holds = True
                stillness = _stillness(answer)
            except GuestFault:
                if memory:
                    raise
            yield stillness
            if not go_on:
                await paused.enter_async_context(held.pop_all())

    async def _with_holder(self, refused: SnapshotRefused) -> SnapshotRefused:
        """Name the process that has the file open for which a machine cannot be saved, if it can be found."""
        path = refused.details.get("path")
        if not isinstance(path, str):
            return refused
        try:
            answer = await self._link.call("holders", {"path": path}, seconds=_UNSURE_SECONDS)
            process = protocol.as_object(protocol.items(answer, "processes")[0])
            pid, name = protocol.integer(process, "pid"), protocol.text(process, "name")
        except (OpenComputerError, ProtocolError, IndexError):
            return refused
        printable = "".join(letter for letter in name if letter.isprintable())
        message = f"{refused.message} It is held open by process {pid} ({printable})."
        return SnapshotRefused(message, **{**refused.details, "pid": pid, "process": printable})

    async def go_on(self) -> None:
        await self._running.go_on()
        paused, self._paused = self._paused, AsyncExitStack()
        await paused.aclose()

    async def release(self) -> None:
        """Let processes go on that are held for a saving, by us or by an earlier server."""
        async with self._dozing.awake():
            with suppress(InvalidInput):  # a guest that was started by an older server holds nothing
                await self._link.call("release", {})

    async def _release_if_it_answers(self, seconds: float) -> None:
        """A guest that was asked to hold and has not said that it did may still be at it."""
        with suppress(GuestFault, InvalidInput):
            await self._link.call("release", {}, seconds=seconds)

    async def set_limits(self, limits: Limits) -> None:
        await self._running.set_limits(limits)

    async def set_egress(self, mode: EgressMode) -> None:
        await self._running.set_egress(mode)

    async def resize(self, limits: Limits) -> None:
        await self._running.set_limits(limits)
        seen: JsonObject = {
            "memory_bytes": limits.memory_bytes,
            "processors": limits.processors,
        }
        async with self._dozing.awake():
            with suppress(InvalidInput):  # a guest that was started by an older server tells nobody
                await self._link.call("limits", seen, seconds=_UNSURE_SECONDS)

    async def usage(self) -> Usage:
        return await self._running.usage()

    async def wait(self) -> str:
        return await self._running.wait()

    async def detach(self) -> None:
        await self._let_go(NotReady("The server is stopping."))

    async def stop(self) -> None:
        try:
            await self._running.stop()
        finally:
            await self._let_go(MachineLost())

    async def _let_go(self, error: NotReady | MachineLost) -> None:
        await self._dozing.close()
        self._watcher.cancel()
        await asyncio.gather(self._watcher, return_exceptions=True)
        await self._link.close(error)

    async def _watch(self) -> None:
        await self._running.wait()
        self._lost = True
        self._link.fail(MachineLost())

    async def _has_processes(self) -> bool:
        answer = await self._link.call("idle", {}, seconds=_IDLE_ANSWER_SECONDS)
        try:
            return protocol.integer(answer, "processes") > 0
        except ProtocolError as error:
            raise GuestFault("the guest's answer cannot be read") from error


def _stillness(answer: JsonObject) -> Stillness:
    try:
        connections = protocol.optional_integer(answer, "connections")
    except ProtocolError as error:
        raise GuestFault("the guest's answer cannot be read") from error
    # A guest that was started by an older server does not say.
    return Stillness(connected=connections != 0)
