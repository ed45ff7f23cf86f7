# Generated from src/opencomputer/sdk/mounts.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.mounts`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opencomputer.sdk import mounts as sdk
    from opencomputer.sdk.mounts import MountBackend, MountInfo


class Mounts(Twin):
    """Mounts remote file systems in one sandbox. A path that is mounted already is mounted anew.

    Credentials go in and are never given out again. A server may lose mounts when the sandbox hibernates:
    `list` says what is there.
    """

    def add(
        self,
        path: str,
        remote: str,
        backend: MountBackend | None = None,
        creds: Mapping[str, str] | None = None,
        rclone_config: str | None = None,
        read_only: bool = True,
        mount_options: Sequence[str] | None = None,
    ) -> MountInfo:
        """Mount a remote that rclone knows at an absolute path, which is made where it is missing.

        `remote` is `name:path`, as "s3:my-bucket/prefix". It is described either by a `backend` with `creds`
        (rclone's own option names), or by an `rclone_config`, which replaces both. `mount_options` are more
        arguments of `rclone mount`. Returns when the mount is usable, within 60 s.
        """
        return self._run(
            self._original.add(path, remote, backend, creds, rclone_config, read_only, mount_options)
        )

    def add_command(
        self,
        path: str,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        read_only: bool = True,
    ) -> MountInfo:
        """Mount by running a program of your own, as `["gcsfuse", "my-bucket", "{mountpoint}"]`.

        `{mountpoint}` becomes the path. The program sees `env` and `secrets` as variables; the secrets are
        never listed. It has to heed `read_only` itself, which it sees as `OC_MOUNT_READONLY=1`.
        """
        return self._run(self._original.add_command(path, command, env, secrets, read_only))

    def list(self) -> list[MountInfo]:
        """The mounts that the server knows of."""
        return self._run(self._original.list())

    def remove(self, path: str) -> None:
        """Unmount a path; one that is not mounted is no error."""
        self._run(self._original.remove(path))

    @property
    def _original(self) -> sdk.Mounts:
        return cast("sdk.Mounts", self._wrapped)
