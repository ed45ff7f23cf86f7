"""Checkpoints of a sandbox: `sandbox.checkpoints`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.answers import Described, JsonObject
from opencomputer.sdk.control_plane import Call, ControlPlane, delete_if_there, get
from opencomputer.sdk.errors import CheckpointFailedError
from opencomputer.sdk.sandbox_link import path_below_sandboxes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from opencomputer.sdk.sandbox_link import SandboxLink

    Sleep = Callable[[float], Awaitable[None]]

_CREATE_SECONDS = 120.0
_RESTORE_SECONDS = 150.0
_READY_SECONDS = 1200.0
_FIRST_DELAY_SECONDS = 0.05
_LONGEST_DELAY_SECONDS = 1.0


class Checkpoint(Described):
    """A saved state of a sandbox, as the server described it, with names for what matters most."""

    def __init__(self, description: JsonObject, link: SandboxLink) -> None:
        super().__init__(description)
        self._link = link

    @property
    def id(self) -> str:
        """The checkpoint's id."""
        return answers.required_text(self, "id")

    @property
    def name(self) -> str:
        """Its name, unique among those of its sandbox."""
        return answers.text(self, "name")

    @property
    def kind(self) -> str:
        """What it holds: "full" is memory and files, "disk_only" files."""
        return answers.text(self, "kind")

    @property
    def status(self) -> str:
        """What was last heard of its state: "processing", "ready" or "failed"."""
        return answers.text(self, "status")

    @property
    def size_bytes(self) -> int:
        """What it takes on the server; 0 until it is ready."""
        return answers.whole(self, "sizeBytes") or 0

    async def wait_until_ready(
        self, timeout: float = _READY_SECONDS, *, sleep: Sleep = asyncio.sleep
    ) -> Checkpoint:
        """Wait until it is durable, and return it.

        A fork or a restore does that by itself, so there is no need to wait before one. Raises
        `CheckpointFailedError` with the server's reason, and `TimeoutError` after so many seconds.
        """
        delay = _FIRST_DELAY_SECONDS
        async with asyncio.timeout(timeout):
            while self.status == "processing":
                await sleep(delay)
                delay = min(2 * delay, _LONGEST_DELAY_SECONDS)
                self.update(await self._described())
        if self.status == "failed":
            raise CheckpointFailedError(self.id, answers.text(self, "errorMsg"))
        return self

    async def _described(self) -> JsonObject:
        for each in await Checkpoints(self._link).list():
            if each.id == self.id:
                return each
        raise CheckpointFailedError(self.id, "it was deleted")


class Checkpoints:
    """Saves states of one sandbox, and goes back to them."""

    def __init__(self, link: SandboxLink) -> None:
        self._link = link

    async def create(
        self,
        name: str,
        kind: str | None = None,
        promote_to_full: bool | None = None,
        retention_policy: Mapping[str, object] | None = None,
    ) -> Checkpoint:
        """Save the sandbox as it is now; see `Sandbox.create_checkpoint`."""
        options = {"kind": kind, "promoteToFull": promote_to_full, "retentionPolicy": retention_policy}
        body: JsonObject = {"name": name}
        body |= {key: value for key, value in options.items() if value is not None}
        call = Call("POST", self._path(), json=body, timeout_seconds=_CREATE_SECONDS)
        return self._checkpoint(await self._link.plane.json(call))

    async def list(self) -> list[Checkpoint]:
        """The sandbox's checkpoints, newest first; also of one that is stopped."""
        described = answers.json_objects(await self._link.plane.json(get(self._path())))
        return [self._checkpoint(each) for each in described]

    async def restore(self, checkpoint_id: str) -> None:
        """Go back to a checkpoint; see `Sandbox.restore_checkpoint`."""
        path = self._path(checkpoint_id, "restore")
        await self._link.plane.send(Call("POST", path, timeout_seconds=_RESTORE_SECONDS))

    async def delete(self, checkpoint_id: str) -> None:
        """Delete a checkpoint. Sandboxes made from it stay; one that is not there is no error."""
        await delete_if_there(self._link.plane, self._path(checkpoint_id))

    async def publish(self, checkpoint_id: str) -> Checkpoint:
        """Let every organisation fork it. Its files and its memory become everybody's to read."""
        return self._checkpoint(await publish(self._link.plane, checkpoint_id, public=True))

    async def unpublish(self, checkpoint_id: str) -> Checkpoint:
        """Keep it to this organisation again. What others have forked stays theirs."""
        return self._checkpoint(await publish(self._link.plane, checkpoint_id, public=False))

    def _path(self, *segments: str) -> str:
        return self._link.path("checkpoints", *segments)

    def _checkpoint(self, description: object) -> Checkpoint:
        return Checkpoint(answers.json_object(description), self._link)


async def publish(plane: ControlPlane, checkpoint_id: str, *, public: bool) -> JsonObject:
    """Make a checkpoint public, or not, and return how the server describes it then."""
    path = path_below_sandboxes("checkpoints", checkpoint_id, "publish" if public else "unpublish")
    return answers.json_object(await plane.json(Call("POST", path, repeatable=True)))
