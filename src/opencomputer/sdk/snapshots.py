"""Named snapshots: images built ahead, from which sandboxes start by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from opencomputer.sdk import answers
from opencomputer.sdk.answers import Described
from opencomputer.sdk.api_client import ApiClient
from opencomputer.sdk.build_stream import LogCallback, build
from opencomputer.sdk.control_plane import Call, delete_if_there, get
from opencomputer.sdk.errors import BuildFailedError, NotFoundError
from opencomputer.sdk.image import Image
from opencomputer.sdk.paths import path_of

_LONGEST_POLL_SECONDS = 5.0
_POLL_GROWTH = 1.5

Sleep = Callable[[float], Awaitable[None]]


class Snapshots(ApiClient):
    """The organisation's named snapshots. Close it, or use it as a context manager."""

    async def create(
        self, name: str, image: Image | Mapping[str, object], on_build_logs: LogCallback | None = None
    ) -> Described:
        """Build an image under a name, and return when it is ready; the callback gets each line of the build.

        The build goes on when this is given up. Raises `BuildFailedError` when a step fails, and
        `ConflictError` when the name is taken.
        """
        call = Call("POST", "/snapshots", json={"name": name, "image": manifest(image)})
        return await build(self._plane, call, on_build_logs)

    async def list(self) -> list[Described]:
        """All of them, newest first."""
        return await self._objects(get("/snapshots"))

    async def get(self, name: str) -> Described:
        """One of them. Raises `NotFoundError` when there is none of this name."""
        return await self._object(get(_path(name)))

    async def delete(self, name: str) -> None:
        """Delete a snapshot; one that is not there is no error. Sandboxes made from it go on."""
        await delete_if_there(self._plane, _path(name))

    async def wait_until_ready(
        self,
        name: str,
        *,
        timeout: float | None = None,
        poll_interval: float = 1.0,
        sleep: Sleep = asyncio.sleep,
    ) -> Described:
        """Ask until it is ready, also when it is not there yet, and return it.

        Raises `BuildFailedError` when it failed, and `TimeoutError` after so many seconds.
        """
        delay = poll_interval
        async with asyncio.timeout(timeout):
            while True:
                found = await self._found(name)
                status = "building" if found is None else answers.text(found, "status")
                if found is not None and status == "ready":
                    return found
                if found is not None and status == "failed":
                    raise BuildFailedError(answers.text(found, "error", "the server gave no reason"))
                await sleep(delay)
                delay = min(delay * _POLL_GROWTH, max(_LONGEST_POLL_SECONDS, poll_interval))

    async def _found(self, name: str) -> Described | None:
        try:
            return await self.get(name)
        except NotFoundError:
            return None


def manifest(image: Image | Mapping[str, object]) -> Mapping[str, object]:
    """What the server gets for an image; a manifest is taken as it is."""
    return image.to_dict() if isinstance(image, Image) else image


def _path(name: str) -> str:
    return path_of("snapshots", name)
