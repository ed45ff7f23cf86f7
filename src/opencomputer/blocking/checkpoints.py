# Generated from src/opencomputer/sdk/checkpoints.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.checkpoints`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.twin import MappingTwin, Twin, view, views

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opencomputer.sdk import checkpoints as sdk


class Checkpoint(MappingTwin):
    """A saved state of a sandbox, as the server described it, with names for what matters most."""

    @property
    def id(self) -> str:
        """The checkpoint's id."""
        return self._original.id

    @property
    def name(self) -> str:
        """Its name, unique among those of its sandbox."""
        return self._original.name

    @property
    def kind(self) -> str:
        """What it holds: "full" is memory and files, "disk_only" files."""
        return self._original.kind

    @property
    def status(self) -> str:
        """What was last heard of its state: "processing", "ready" or "failed"."""
        return self._original.status

    @property
    def size_bytes(self) -> int:
        """What it takes on the server; 0 until it is ready."""
        return self._original.size_bytes

    def wait_until_ready(self, timeout: float = 1200.0) -> Checkpoint:
        """Wait until it is durable, and return it.

        A fork or a restore does that by itself, so there is no need to wait before one. Raises
        `CheckpointFailedError` with the server's reason, and `TimeoutError` after so many seconds.
        """
        return self._self_or(Checkpoint, self._run(self._original.wait_until_ready(timeout)))

    @property
    def _original(self) -> sdk.Checkpoint:
        return cast("sdk.Checkpoint", self._wrapped)


class Checkpoints(Twin):
    """Saves states of one sandbox, and goes back to them."""

    def create(
        self,
        name: str,
        kind: str | None = None,
        promote_to_full: bool | None = None,
        retention_policy: Mapping[str, object] | None = None,
    ) -> Checkpoint:
        """Save the sandbox as it is now; see `Sandbox.create_checkpoint`."""
        return view(
            Checkpoint, self._run(self._original.create(name, kind, promote_to_full, retention_policy))
        )

    def list(self) -> list[Checkpoint]:
        """The sandbox's checkpoints, newest first; also of one that is stopped."""
        return views(Checkpoint, self._run(self._original.list()))

    def restore(self, checkpoint_id: str) -> None:
        """Go back to a checkpoint; see `Sandbox.restore_checkpoint`."""
        self._run(self._original.restore(checkpoint_id))

    def delete(self, checkpoint_id: str) -> None:
        """Delete a checkpoint. Sandboxes made from it stay; one that is not there is no error."""
        self._run(self._original.delete(checkpoint_id))

    def publish(self, checkpoint_id: str) -> Checkpoint:
        """Let every organisation fork it. Its files and its memory become everybody's to read."""
        return view(Checkpoint, self._run(self._original.publish(checkpoint_id)))

    def unpublish(self, checkpoint_id: str) -> Checkpoint:
        """Keep it to this organisation again. What others have forked stays theirs."""
        return view(Checkpoint, self._run(self._original.unpublish(checkpoint_id)))

    @property
    def _original(self) -> sdk.Checkpoints:
        return cast("sdk.Checkpoints", self._wrapped)
