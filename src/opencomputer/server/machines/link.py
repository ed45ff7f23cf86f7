"""The multiplexed connection to one guest: comes back after a loss and resumes what was attached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

from opencomputer.inside.guest import protocol
from opencomputer.inside.guest.protocol import JsonObject, ProtocolError
from opencomputer.server.domain.errors import GuestFault, OpenComputerError
from opencomputer.server.machines.faults import result_in
from opencomputer.server.machines.wire import Sink, Wire, WireLost

REQUEST_SECONDS = 30.0
_GREETING_SECONDS = 10.0
_PARTING_SECONDS = 8.0
_FIRST_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 1.0
_FIRST_ATTEMPT_SECONDS = 0.25
_LONGEST_ATTEMPT_SECONDS = 5.0


class Resumable(Protocol):
    """Something that goes on over the next connection. `id` is its name in the guest."""

    @property
    def id(self) -> str: ...

    async def resume(self, wire: Wire) -> None:
        """Go on over `wire`. Raises WireLost when that is lost, too."""
        ...

    def fail(self, error: OpenComputerError) -> None:
        """There will be no further connection."""
        ...


class Link:
    """Requests and streams to one guest.

    It connects when it is needed: for a request, or because something attached has to go on. It never
    connects to a machine that nobody uses, which may be frozen.
    """

    def __init__(self, address: tuple[str, int], token: str) -> None:
        self._address = address
        self._tokens = [token]
        self._wire: Wire | None = None
        self._connector: asyncio.Task[Wire] | None = None
        self._watchers: set[asyncio.Task[None]] = set()
        self._resumables: dict[str, Resumable] = {}
        self._waiting = 0
        self._failure: OpenComputerError | None = None
        self._may_connect = asyncio.Event()
        self._may_connect.set()

    async def connect(self, seconds: float) -> None:
        """Be connected within `seconds`. Raises GuestFault when the guest does not answer."""
        try:
            async with asyncio.timeout(seconds):
                await self._connected()
        except TimeoutError as error:
            raise GuestFault("the machine's guest did not answer in time") from error

    @asynccontextmanager
    async def apart(self, farewell: str, *, seconds: float | None = None) -> AsyncGenerator[JsonObject]:
        """Be without a connection meanwhile: what wants one waits, and what was attached goes on after.

        `farewell` is the last operation that the guest does before; its answer is what this gives. Raises
        GuestFault when the guest does not do it, or does not let go of its end.
        """
        try:
            yield await self._part(farewell, seconds or _PARTING_SECONDS)
        finally:
            self._may_connect.set()

    async def _part(self, farewell: str, seconds: float) -> JsonObject:
        try:
            async with asyncio.timeout(seconds):
                wire = await self._connected()
                self._may_connect.clear()
                answer = await self._answer(wire, farewell, {})
                await wire.part()
                return answer
        except WireLost as error:
            raise self._failure or GuestFault(f"the connection to the guest was lost: {error}") from error
        except TimeoutError as error:
            raise GuestFault("the machine's guest did not close its connection") from error

    async def call(
        self, operation: str, fields: JsonObject, *, seconds: float = REQUEST_SECONDS
    ) -> JsonObject:
        """Send a request and wait for its result, over a new connection if need be.

        Only for operations that may be repeated. Raises the guest's error, GuestFault when it does not
        answer in time, or what `fail` was told.
        """
        wire: Wire | None = None
        received = 0
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        wire = await self._connected()
                        received = wire.frames_received
                        return await self._answer(wire, operation, fields)
                    except WireLost:
                        continue
        except TimeoutError as error:
            if wire is not None and wire.frames_received == received:
                wire.close("nothing was received within a request's time")
            raise GuestFault("the machine's guest did not answer in time") from error

    async def open(
        self, operation: str, fields: JsonObject, sink: Sink, *, seconds: float = REQUEST_SECONDS
    ) -> tuple[Wire, int, JsonObject]:
        """Open a stream that does not survive its connection. The wire, the stream, and the result."""
        try:
            async with asyncio.timeout(seconds):
                wire = await self._connected()
                stream, answer = self._request(wire, operation, fields, sink)
                try:
                    return wire, stream, result_in(await answer)
                except asyncio.CancelledError:
                    wire.cancel(stream)
                    raise
        except TimeoutError as error:
            raise GuestFault("the machine's guest did not answer in time") from error
        except WireLost as error:
            raise self._failure or GuestFault(f"the connection to the guest was lost: {error}") from error

    async def attach(self, resumable: Resumable, *, seconds: float = REQUEST_SECONDS) -> None:
        """Begin something that goes on over later connections until `release`."""
        try:
            async with asyncio.timeout(seconds):
                while resumable.id not in self._resumables:
                    try:
                        await resumable.resume(await self._connected())
                    except WireLost:
                        continue
                    self._resumables[resumable.id] = resumable
        except TimeoutError as error:
            raise GuestFault("the machine's guest did not answer in time") from error

    @property
    def failure(self) -> OpenComputerError | None:
        """Why there will be no further connection, once there will be none."""
        return self._failure

    def release(self, resumable: Resumable) -> None:
        self._resumables.pop(resumable.id, None)

    def expect_token(self, token: str) -> None:
        """The guest may have a new token from now on; `settle_token` says that it has."""
        self._tokens = [token, self._tokens[0]]

    def settle_token(self, token: str) -> None:
        self._tokens = [token]

    def fail(self, error: OpenComputerError) -> None:
        """The machine has ended, or we let go of it: everything that waits or comes raises `error`."""
        if self._failure is not None:
            return
        self._failure = error
        self._may_connect.set()
        resumables, self._resumables = self._resumables, {}
        for resumable in resumables.values():
            resumable.fail(error)
        if self._wire is not None:
            self._wire.close(error.message)
        if self._connector is not None:
            self._connector.cancel()

    async def close(self, error: OpenComputerError) -> None:
        """`fail`, and wait until nothing of the link runs any more."""
        self.fail(error)
        tasks: list[asyncio.Task[None] | asyncio.Task[Wire]] = [*self._watchers]
        if self._connector is not None:
            tasks.append(self._connector)
        if tasks:
            await asyncio.wait(tasks)

    # Connecting

    async def _connected(self) -> Wire:
        await self._may_connect.wait()
        if self._failure is not None:
            raise self._failure
        if self._wire is not None and self._wire.is_open:
            return self._wire
        if self._connector is None:
            self._connector = asyncio.create_task(self._connect())
            self._connector.add_done_callback(self._connector_done)
        connector = self._connector
        self._waiting += 1
        try:
            return await asyncio.shield(connector)
        except asyncio.CancelledError:
            if self._failure is not None and connector.cancelled():
                raise self._failure from None
            raise
        finally:
            self._waiting -= 1

    def _connector_done(self, connector: asyncio.Task[Wire]) -> None:
        self._connector = None
        if not connector.cancelled():
            connector.exception()  # told to those who wait; nobody may

    async def _connect(self) -> Wire:
        pause, attempt = _FIRST_PAUSE_SECONDS, _FIRST_ATTEMPT_SECONDS
        turn = 0
        while self._waiting or self._resumables:
            await self._may_connect.wait()
            wire = await self._try_connect(self._tokens[turn % len(self._tokens)], attempt)
            if wire is not None and await self._resume_all(wire):
                self._wire = wire
                watcher = asyncio.create_task(self._watch(wire))
                self._watchers.add(watcher)
                watcher.add_done_callback(self._watchers.discard)
                return wire
            turn += 1
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)
            attempt = min(attempt * 1.5, _LONGEST_ATTEMPT_SECONDS)
        raise WireLost("nobody needs a connection any more")

    async def _try_connect(self, token: str, seconds: float) -> Wire | None:
        loop = asyncio.get_running_loop()
        wire: Wire | None = None
        try:
            async with asyncio.timeout(seconds):
                _, wire = await loop.create_connection(Wire, *self._address)
            async with asyncio.timeout(_GREETING_SECONDS):
                greeting = await wire.greet(
                    {
                        "version": protocol.VERSION,
                        "token": token,
                        "attachments": list(self._resumables),
                    }
                )
                protocol.integer(greeting, "version", least=protocol.VERSION, most=protocol.VERSION)
        except (OSError, TimeoutError, WireLost, ProtocolError) as error:
            if wire is not None:
                wire.close(f"no greeting: {error}")
            return None
        except BaseException:
            if wire is not None:
                wire.close("the link is closing")
            raise
        self.settle_token(token)
        return wire

    async def _resume_all(self, wire: Wire) -> bool:
        for resumable in list(self._resumables.values()):
            try:
                await resumable.resume(wire)
            except WireLost:
                return False
            except OpenComputerError as error:
                self.release(resumable)
                resumable.fail(error)
        return True

    async def _watch(self, wire: Wire) -> None:
        await wire.lost
        while self._failure is None and self._resumables:
            try:
                await self._connected()
                return
            except (WireLost, OpenComputerError):
                continue

    async def _answer(self, wire: Wire, operation: str, fields: JsonObject) -> JsonObject:
        stream, answer = self._request(wire, operation, fields, None)
        try:
            return result_in(await answer)
        except asyncio.CancelledError:
            wire.cancel(stream)
            raise

    def _request(
        self, wire: Wire, operation: str, fields: JsonObject, sink: Sink | None
    ) -> tuple[int, asyncio.Future[JsonObject]]:
        return wire.request({"op": operation, **fields}, sink)
