"""The sandboxes that one client works with: which it may use, which it made, and what it means by none."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from opencomputer.sdk.http import httpx
from opencomputer.sdk.sandbox import Sandbox


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

    def add(self, sandbox: Sandbox) -> None:
        """The client made it."""
        self.made.append(sandbox.sandbox_id)
        self._open[sandbox.sandbox_id] = sandbox

    async def forget(self, sandbox_id: str) -> None:
        """It is killed."""
        if sandbox_id in self.made:
            self.made.remove(sandbox_id)
        if sandbox := self._open.pop(sandbox_id, None):
            await sandbox.close()

    async def leave(self) -> None:
        """Close the connections. Where that was asked for, first kill what the client made."""
        if self.access.kill_at_exit:
            await asyncio.gather(*(self._kill(each) for each in list(self.made)))
        await asyncio.gather(*(each.close() for each in self._open.values()), return_exceptions=True)

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
