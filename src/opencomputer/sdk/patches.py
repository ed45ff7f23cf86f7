"""Patches of a checkpoint: scripts that sandboxes made from it run once, in order."""

from __future__ import annotations

import builtins

from opencomputer.sdk import answers
from opencomputer.sdk.answers import Described, JsonObject
from opencomputer.sdk.control_plane import Call, ControlPlane, delete_if_there, get
from opencomputer.sdk.endpoint import Endpoint
from opencomputer.sdk.sandbox_link import path_below_sandboxes

_CREATE_SECONDS = 300.0


class Patches:
    """The patches of one checkpoint."""

    def __init__(self, plane: ControlPlane, checkpoint_id: str) -> None:
        self._plane = plane
        self._checkpoint_id = checkpoint_id

    async def create(self, script: str, description: str = "") -> Described:
        """Add a script, and return the server's answer, `{"patch": {…}}`."""
        body: JsonObject = {"script": script}
        if description:
            body["description"] = description
        call = Call("POST", self._path(), json=body, timeout_seconds=_CREATE_SECONDS)
        return answers.json_object(await self._plane.json(call))

    async def list(self) -> list[Described]:
        """The patches as the server describes them, in the order they run."""
        return answers.json_objects(await self._plane.json(get(self._path())))

    async def delete(self, patch_id: str) -> None:
        """Delete a patch; one that is not there is no error."""
        await delete_if_there(self._plane, self._path(patch_id))

    def _path(self, *segments: str) -> str:
        return path_below_sandboxes("checkpoints", self._checkpoint_id, "patches", *segments)


class CheckpointPatches:
    """What of `Sandbox` is about patches: of a checkpoint, not of one sandbox."""

    @staticmethod
    async def create_checkpoint_patch(
        checkpoint_id: str,
        script: str,
        description: str = "",
        api_key: str | None = None,
        api_url: str | None = None,
    ) -> Described:
        """Add a script that sandboxes made from this checkpoint run once; returns `{"patch": {…}}`.

        New ones run it before they are given out, those that exist when they wake. Where it fails, the
        sandbox's description has a `patchError`, and it is tried again at the next wake.
        """
        async with ControlPlane(Endpoint.resolve(api_key, api_url)) as plane:
            return await Patches(plane, checkpoint_id).create(script, description)

    @staticmethod
    async def list_checkpoint_patches(
        checkpoint_id: str, api_key: str | None = None, api_url: str | None = None
    ) -> builtins.list[Described]:
        """A checkpoint's patches, in the order they run."""
        async with ControlPlane(Endpoint.resolve(api_key, api_url)) as plane:
            return await Patches(plane, checkpoint_id).list()

    @staticmethod
    async def delete_checkpoint_patch(
        checkpoint_id: str, patch_id: str, api_key: str | None = None, api_url: str | None = None
    ) -> None:
        """Delete a patch; one that is not there is no error."""
        async with ControlPlane(Endpoint.resolve(api_key, api_url)) as plane:
            await Patches(plane, checkpoint_id).delete(patch_id)
