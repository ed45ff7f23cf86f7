# Generated from src/opencomputer/sdk/snapshots.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.snapshots`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.api_client import ApiClient
from opencomputer.blocking.support.threads import off_loop
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk import snapshots as sdk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opencomputer.sdk.answers import Described
    from opencomputer.sdk.build_stream import LogCallback
    from opencomputer.sdk.image import Image


class Snapshots(ApiClient):
    """The organisation's named snapshots. Close it, or use it as a context manager."""

    def __init__(self, api_key: str | None = None, api_url: str | None = None) -> None:
        Twin.__init__(self, sdk.Snapshots(api_key, api_url))

    def create(
        self, name: str, image: Image | Mapping[str, object], on_build_logs: LogCallback | None = None
    ) -> Described:
        """Build an image under a name, and return when it is ready; the callback gets each line of the build.

        The build goes on when this is given up. Raises `BuildFailedError` when a step fails, and
        `ConflictError` when the name is taken.
        """
        return self._run(self._original.create(name, image, off_loop(on_build_logs)))

    def list(self) -> list[Described]:
        """All of them, newest first."""
        return self._run(self._original.list())

    def get(self, name: str) -> Described:
        """One of them. Raises `NotFoundError` when there is none of this name."""
        return self._run(self._original.get(name))

    def delete(self, name: str) -> None:
        """Delete a snapshot; one that is not there is no error. Sandboxes made from it go on."""
        self._run(self._original.delete(name))

    def wait_until_ready(
        self, name: str, *, timeout: float | None = None, poll_interval: float = 1.0
    ) -> Described:
        """Ask until it is ready, also when it is not there yet, and return it.

        Raises `BuildFailedError` when it failed, and `TimeoutError` after so many seconds.
        """
        return self._run(self._original.wait_until_ready(name, timeout=timeout, poll_interval=poll_interval))

    @property
    def _original(self) -> sdk.Snapshots:
        return cast("sdk.Snapshots", self._wrapped)
