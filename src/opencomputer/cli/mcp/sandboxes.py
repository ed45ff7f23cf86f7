"""The sandboxes that one client works with: which it may use, which it made, and what it means by none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

import anyio
import anyio.lowlevel

from opencomputer.sdk.http import httpx
from opencomputer.sdk.sandbox import Sandbox

_CLEANUP_SECONDS = 30.0


@dataclass(frozen=True)
class Access:
    """The server, and what is open to the client. With `only`, that sandbox and no other."""

    api_key: str
    api_url: str
    only: str | None = None
    kill_at_exit: bool = False


class NoSandbox(Exception):
    """No sandbox, or not this one; the text says what to do."""


class Sandboxes:
    """Keeps connections to the sandboxes that were used."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.made: list[str] = []
        self.left = asyncio.Event()
        """Set once `leave` has done what it can."""
        self._open: dict[str, Sandbox] = {}
        self._opening = asyncio.Lock()

    async def get(self, sandbox_id: str | None) -> Sandbox:
        """The sandbox; where none is named, the only one that there is for this client.

        Raises NoSandbox, and what the SDK raises.
        """
        wanted = self._meant(sandbox_id)
        async with self._opening:
            if wanted not in self._open:
                self._open[wanted] = await Sandbox.connect(wanted, self.access.api_key, self.access.api_url)
            return self._open[wanted]

    async def add(self, making: Awaitable[Sequence[Sandbox]]) -> Sequence[Sandbox]:
        """What the client makes, waited for also when it is gone meanwhile: the server makes it all the same.

        A client that is gone, or has cancelled, does not know of them, so they are killed. Raises what the
        SDK raises.
        """
        made: Sequence[Sandbox] = ()
        with anyio.CancelScope(shield=True):
            made = await making
        for sandbox in made:
            self.made.append(sandbox.sandbox_id)
            self._open[sandbox.sandbox_id] = sandbox
        try:
            await anyio.lowlevel.checkpoint()
        except asyncio.CancelledError:
            with anyio.move_on_after(_CLEANUP_SECONDS, shield=True):
                await asyncio.gather(*(self._kill(each.sandbox_id) for each in made))
                await asyncio.gather(*(self.forget(each.sandbox_id) for each in made))
            raise
        return made

    async def forget(self, sandbox_id: str) -> None:
        """It is killed."""
        if sandbox_id in self.made:
            self.made.remove(sandbox_id)
        if sandbox := self._open.pop(sandbox_id, None):
            await sandbox.close()

    async def leave(self) -> None:
        """Close the connections. Where that was asked for, first kill what the client made."""
        with anyio.move_on_after(_CLEANUP_SECONDS, shield=True):
            if self.access.kill_at_exit:
                await asyncio.gather(*(self._kill(each) for each in list(self.made)))
            await asyncio.gather(*(each.close() for each in self._open.values()), return_exceptions=True)
        self.left.set()

    async def _kill(self, sandbox_id: str) -> None:
        try:
            await self._open[sandbox_id].kill()
        except (httpx.HTTPError, KeyError):
            pass  # there is nobody left to be told

    def _meant(self, sandbox_id: str | None) -> str:
        only = self.access.only
        if only is not None:
            if sandbox_id not in (None, "", only):
                raise NoSandbox(f"This connection is limited to the sandbox {only}; leave sandbox_id out.")
            return only
        if sandbox_id:
            return sandbox_id
        if len(self.made) == 1:
            return self.made[0]
        if self.made:
            raise NoSandbox(f"Say which sandbox, by sandbox_id: {', '.join(self.made)}.")
        raise NoSandbox("There is no sandbox yet: make one with create_sandbox, or look with list_sandboxes.")
