"""Remote file systems in a sandbox: `sandbox.mounts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from opencomputer.sdk import answers
from opencomputer.sdk.control_plane import Call, delete_if_there, get
from opencomputer.sdk.texts import listed, listed_if_given

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.sandbox_link import SandboxLink

MountBackend = Literal["s3", "gcs", "azureblob", "sftp", "webdav", "dropbox"]

_MOUNT_SECONDS = 60.0


@dataclass(frozen=True)
class MountInfo:
    """A mount; `driver` "rclone" fills `remote`, `backend`, `rclone_version`, "command" the last two."""

    path: str
    read_only: bool
    driver: str = "rclone"
    remote: str = ""
    backend: str = ""
    rclone_version: str = ""
    command: list[str] = field(default_factory=list[str])
    env: dict[str, str] = field(default_factory=dict[str, str])


class Mounts:
    """Mounts remote file systems in one sandbox. A path that is mounted already is mounted anew.

    Credentials go in and are never given out again. A server may lose mounts when the sandbox hibernates:
    `list` says what is there.
    """

    def __init__(self, link: SandboxLink) -> None:
        self._link = link

    async def add(
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
        body: JsonObject = {"path": path, "remote": remote, "readOnly": read_only}
        options = {
            "backend": backend,
            "creds": None if creds is None else dict(creds),
            "rcloneConfig": rclone_config,
            "mountOptions": listed_if_given(mount_options, "mount_options"),
        }
        body |= {name: value for name, value in options.items() if value is not None}
        return await self._add(body)

    async def add_command(
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
        body: JsonObject = {
            "path": path,
            "driver": "command",
            "command": listed(command, "command"),
            "readOnly": read_only,
        }
        options = {"env": env, "secrets": secrets}
        body |= {name: dict(value) for name, value in options.items() if value is not None}
        return await self._add(body)

    async def list(self) -> list[MountInfo]:
        """The mounts that the server knows of."""
        return [_info(each) for each in answers.json_objects(await self._link.plane.json(get(self._path())))]

    async def remove(self, path: str) -> None:
        """Unmount a path; one that is not mounted is no error."""
        await delete_if_there(self._link.plane, self._path(), {"path": path})

    async def _add(self, body: JsonObject) -> MountInfo:
        call = Call("POST", self._path(), json=body, timeout_seconds=_MOUNT_SECONDS)
        return _info(answers.json_object(await self._link.plane.json(call)))

    def _path(self) -> str:
        return self._link.path("mounts")


def _info(answer: JsonObject) -> MountInfo:
    return MountInfo(
        path=answers.required_text(answer, "path"),
        read_only=answer.get("readOnly") is not False,
        driver=answers.text(answer, "driver", "rclone"),
        remote=answers.text(answer, "remote"),
        backend=answers.text(answer, "backend"),
        rclone_version=answers.text(answer, "rcloneVersion"),
        command=answers.texts(answer, "command"),
        env=answers.text_map(answer, "env"),
    )
