"""Named snapshots: images built ahead, from which sandboxes start by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from urllib.parse import quote

from opencomputer.sdk import answers
from opencomputer.sdk.answers import JsonObject
from opencomputer.sdk.build_stream import LogCallback, build
from opencomputer.sdk.control_plane import Call, ControlPlane, get
from opencomputer.sdk.endpoint import Endpoint
from opencomputer.sdk.errors import BuildFailedError, NotFoundError
from opencomputer.sdk.image import Image

_LONGEST_POLL_SECONDS = 5.0
_POLL_GROWTH = 1.5

Sleep = Callable[[float], Awaitable[None]]


class Snapshots:
    """The organisation's named snapshots. Close it, or use it as a context manager.

    The key and the address of the server default to `OPENCOMPUTER_API_KEY` and `OPENCOMPUTER_API_URL`.
    """

    def __init__(self, api_key: str | None = None, api_url: str | None = None) -> None:
        self._plane = ControlPlane(Endpoint.resolve(api_key, api_url))

    async def create(
        self, name: str, image: Image | JsonObject, on_build_logs: LogCallback | None = None
    ) -> JsonObject:
        """Build an image under a name, and return when it is ready; the callback gets each line of the build.

        The build goes on when this is given up. Raises `BuildFailedError` when a step fails, and
        `ConflictError` when the name is taken.
        """
        call = Call("POST", "/snapshots", json={"name": name, "image": manifest(image)})
        return await build(self._plane, call, on_build_logs)

    async def list(self) -> list[JsonObject]:
        """All of them, newest first."""
        return answers.json_objects(await self._plane.json(get("/snapshots")))

    async def get(self, name: str) -> JsonObject:
        """One of them. Raises `NotFoundError` when there is none of this name."""
        return answers.json_object(await self._plane.json(get(_path(name))))

    async def delete(self, name: str) -> None:
        """Delete a snapshot; one that is not there is no error. Sandboxes made from it go on."""
        try:
            await self._plane.send(Call("DELETE", _path(name)))
        except NotFoundError:
            return

    async def wait_until_ready(
        self,
        name: str,
        *,
        timeout: float | None = None,
        poll_interval: float = 1.0,
        sleep: Sleep = asyncio.sleep,
    ) -> JsonObject:
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

    async def close(self) -> None:
        """Close the connections; may be called again."""
        await self._plane.aclose()

    async def __aenter__(self) -> Snapshots:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _found(self, name: str) -> JsonObject | None:
        try:
            return await self.get(name)
        except NotFoundError:
            return None


def manifest(image: Image | JsonObject) -> JsonObject:
    """What the server gets for an image; a manifest is taken as it is."""
    return image.to_dict() if isinstance(image, Image) else image


def _path(name: str) -> str:
    return f"/snapshots/{quote(name, safe='')}"
