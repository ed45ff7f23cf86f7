"""Whether a browser profile is logged in somewhere, found out in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.control_plane import ControlPlane, get
from opencomputer.sdk.paths import path_of

if TYPE_CHECKING:
    from opencomputer.sdk.answers import Described, JsonObject

_UNFINISHED = frozenset({"", "accepted", "created", "pending", "queued", "running", "started", "in_progress"})


class AuthCheck:
    """A check that `BrowserProfile.check_auth` began."""

    def __init__(self, plane: ControlPlane, checks: str, description: JsonObject) -> None:
        self.id: str = answers.required_text(description, "id")
        self.raw: Described = description
        """All that the server says of it, its result included."""
        self._plane = plane
        self._path = checks + path_of(self.id)

    @property
    def status(self) -> str:
        """What was last heard of its state, in the server's word."""
        return answers.text(self.raw, "status") or answers.text(self.raw, "state")

    @property
    def finished(self) -> bool:
        """Whether it has come to an end, with or without a result. Words that are not known are an end."""
        return self.status not in _UNFINISHED

    async def refresh(self) -> AuthCheck:
        """Ask how far it is, and return this."""
        self.raw = answers.json_object(await self._plane.json(get(self._path)))
        return self

    async def wait(
        self,
        interval: float = 2.0,
        timeout: float | None = 120.0,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> AuthCheck:
        """Ask every `interval` seconds until it has finished, and return this.

        Raises `TimeoutError` after `timeout` seconds; None waits without limit.
        """
        async with asyncio.timeout(timeout):
            while not self.finished:
                await sleep(interval)
                await self.refresh()
        return self
