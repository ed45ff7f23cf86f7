# Generated from src/opencomputer/sdk/patches.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.patches`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.loop import run
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk import patches as sdk

if TYPE_CHECKING:
    import builtins

    from opencomputer.sdk.answers import Described


class CheckpointPatches(Twin):
    """What of `Sandbox` is about patches: of a checkpoint, not of one sandbox."""

    @staticmethod
    def create_checkpoint_patch(
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
        return run(
            sdk.CheckpointPatches.create_checkpoint_patch(
                checkpoint_id, script, description, api_key, api_url
            )
        )

    @staticmethod
    def list_checkpoint_patches(
        checkpoint_id: str, api_key: str | None = None, api_url: str | None = None
    ) -> builtins.list[Described]:
        """A checkpoint's patches, in the order they run."""
        return run(sdk.CheckpointPatches.list_checkpoint_patches(checkpoint_id, api_key, api_url))

    @staticmethod
    def delete_checkpoint_patch(
        checkpoint_id: str, patch_id: str, api_key: str | None = None, api_url: str | None = None
    ) -> None:
        """Delete a patch; one that is not there is no error."""
        run(sdk.CheckpointPatches.delete_checkpoint_patch(checkpoint_id, patch_id, api_key, api_url))

    @property
    def _original(self) -> sdk.CheckpointPatches:
        return cast("sdk.CheckpointPatches", self._wrapped)
