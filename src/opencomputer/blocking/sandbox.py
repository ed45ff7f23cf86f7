# Generated from src/opencomputer/sdk/sandbox.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.sandbox`; see there."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import TYPE_CHECKING, cast

from opencomputer.blocking.agent import Agent
from opencomputer.blocking.audit import AuditTrail
from opencomputer.blocking.checkpoints import Checkpoint, Checkpoints
from opencomputer.blocking.exec import Exec
from opencomputer.blocking.file_urls import FileUrls
from opencomputer.blocking.files import Filesystem
from opencomputer.blocking.logs import SandboxLogs
from opencomputer.blocking.mounts import Mounts
from opencomputer.blocking.patches import CheckpointPatches
from opencomputer.blocking.previews import SandboxPreviews
from opencomputer.blocking.pty import Pty
from opencomputer.blocking.scaling import SandboxScaling
from opencomputer.blocking.secret_stores import SandboxHosts
from opencomputer.blocking.support.loop import run
from opencomputer.blocking.support.threads import off_loop
from opencomputer.blocking.support.twin import view, views
from opencomputer.sdk import sandbox as sdk

if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from opencomputer.sdk.answers import Described
    from opencomputer.sdk.build_stream import LogCallback
    from opencomputer.sdk.diffs import FileChange
    from opencomputer.sdk.image import Image


class Sandbox(
    CheckpointPatches, FileUrls, SandboxPreviews, SandboxScaling, SandboxHosts, AuditTrail, SandboxLogs
):
    """One sandbox. Made by `create` or `connect`, never directly.

    Used as a context manager the sandbox is killed at the end. What the server refuses raises an
    `OpenComputerError`; a server that cannot be reached, an `httpx.TransportError`.
    """

    @classmethod
    def create(
        cls,
        template: str = "base",
        timeout: int = 0,
        api_key: str | None = None,
        api_url: str | None = None,
        envs: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        burst: bool | None = None,
        sandbox_family: str | None = None,
        disk_mb: int | None = None,
        memory_mb: int | None = None,
        secret_store: str | None = None,
        image: Image | Mapping[str, object] | None = None,
        snapshot: str | None = None,
        on_build_log: LogCallback | None = None,
        preview_auth: Mapping[str, object] | None = None,
        cpu_count: int | None = None,
        webhooks: Sequence[Mapping[str, object]] | None = None,
        *,
        egress_allowlist: Sequence[str] | None = None,
    ) -> Sandbox:
        """Make a new sandbox; `with` it to have the sandbox killed at the end.

        It is usable when this returns. `timeout` is the idle time in seconds after which the server puts it
        away, 0 for never. `envs` are seen by every process in it; `metadata` is for your own use. The key
        and the address of the server default to `OPENCOMPUTER_API_KEY` and `OPENCOMPUTER_API_URL`.

        `memory_mb` and `cpu_count` are a size of the server's, and one infers the other. It starts from an
        `image`, which is built when that was not done before, or from the named `snapshot`. `on_build_log`
        gets each line of the build; a step that fails raises `BuildFailedError`.

        With `preview_auth`, `{}` or `{"token": …}`, its previews ask for a token: `preview_auth_token`.
        With a `secret_store` it has tokens for its secrets; it reaches only listed hosts, if any are. Of
        `webhooks`, `[{"url", "secret"?, "eventTypes"?}]`, each is told of its life; see `Sandbox.webhooks`.
        `burst`, and its older form `sandbox_family`, ask for cheaper machines, where a server has any.
        """
        return view(
            cls,
            run(
                sdk.Sandbox.create(
                    template,
                    timeout,
                    api_key,
                    api_url,
                    envs,
                    metadata,
                    burst,
                    sandbox_family,
                    disk_mb,
                    memory_mb,
                    secret_store,
                    image,
                    snapshot,
                    off_loop(on_build_log),
                    preview_auth,
                    cpu_count,
                    webhooks,
                    egress_allowlist=egress_allowlist,
                )
            ),
        )

    @classmethod
    def connect(cls, sandbox_id: str, api_key: str | None = None, api_url: str | None = None) -> Sandbox:
        """Take up a sandbox that exists, running or not. Raises `NotFoundError` when there is none."""
        return view(cls, run(sdk.Sandbox.connect(sandbox_id, api_key, api_url)))

    @classmethod
    def create_from_checkpoint(
        cls,
        checkpoint_id: str,
        timeout: int = 0,
        api_key: str | None = None,
        api_url: str | None = None,
        envs: Mapping[str, str] | None = None,
        secret_store: str | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        memory_mb: int | None = None,
    ) -> Sandbox:
        """Make a sandbox that goes on from a checkpoint.

        From a full checkpoint its processes go on too, where `memory_restored` says so. `envs` and
        `metadata` are added to what it inherits. Waits for a checkpoint that is not ready yet.
        """
        return view(
            cls,
            run(
                sdk.Sandbox.create_from_checkpoint(
                    checkpoint_id,
                    timeout,
                    api_key,
                    api_url,
                    envs,
                    secret_store,
                    metadata=metadata,
                    memory_mb=memory_mb,
                )
            ),
        )

    @staticmethod
    def list(api_key: str | None = None, api_url: str | None = None) -> list[Described]:
        """The organisation's sandboxes that are not stopped, newest first, as the server describes them."""
        return run(sdk.Sandbox.list(api_key, api_url))

    @property
    def sandbox_id(self) -> str:
        """The sandbox's id."""
        return self._original.sandbox_id

    @property
    def id(self) -> str:
        """The same as `sandbox_id`."""
        return self._original.id

    @property
    def status(self) -> str:
        """What was last heard of its state: "running", "hibernated", "stopped" or "error"."""
        return self._original.status

    @property
    def template(self) -> str:
        """The template it was made from."""
        return self._original.template

    @property
    def end_at(self) -> str | None:
        """When its host will be destroyed (RFC 3339), or None when that is not planned."""
        return self._original.end_at

    @property
    def domain(self) -> str:
        """The domain of its preview addresses, "" when the server has none."""
        return self._original.domain

    @property
    def memory_mb(self) -> int | None:
        """Its memory at the time it was created or connected to, if the server says."""
        return self._original.memory_mb

    @property
    def cpu_count(self) -> int | None:
        """Its processors at the time it was created or connected to, if the server says."""
        return self._original.cpu_count

    @property
    def webhooks(self) -> builtins.list[Described]:
        """The destinations it was created with: `[{"id", "url", "secret"?}]`, the secrets only told then."""
        return self._original.webhooks

    @property
    def from_checkpoint_id(self) -> str | None:
        """The checkpoint it was made from, if it was."""
        return self._original.from_checkpoint_id

    @property
    def memory_restored(self) -> bool:
        """Whether it was made by a fork that took over processes and memory, not only files."""
        return self._original.memory_restored

    @property
    def patch_error(self) -> str | None:
        """Why the last patch of its checkpoint failed in it, as far as was last heard; None if none did."""
        return self._original.patch_error

    @property
    def recovered(self) -> int | None:
        """Which step its last wake had to take because its memory was of no use; None where it was.

        2: it began from its files, and its processes were lost.
        """
        return self._original.recovered

    @cached_property
    def agent(self) -> Agent:
        """Claude agents that work inside it."""
        return view(Agent, self._original.agent)

    @cached_property
    def exec(self) -> Exec:
        """Programs that run in it."""
        return view(Exec, self._original.exec)

    @cached_property
    def files(self) -> Filesystem:
        """Its files."""
        return view(Filesystem, self._original.files)

    @cached_property
    def pty(self) -> Pty:
        """Terminals in it."""
        return view(Pty, self._original.pty)

    @cached_property
    def mounts(self) -> Mounts:
        """Remote file systems in it."""
        return view(Mounts, self._original.mounts)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """Its saved states."""
        return view(Checkpoints, self._original.checkpoints)

    @property
    def commands(self) -> Exec:
        """The old name of `exec`."""
        warnings.warn("Sandbox.commands is deprecated, use Sandbox.exec", DeprecationWarning, stacklevel=2)
        return self.exec

    def is_running(self) -> bool:
        """Whether it runs now. A sandbox that the server does not know, or will not show, does not."""
        return self._run(self._original.is_running())

    def set_timeout(self, timeout: int) -> None:
        """Set the idle time in seconds after which the server puts it away; 0 for never."""
        self._run(self._original.set_timeout(timeout))

    def hibernate(self) -> None:
        """Save memory and files and give the machine up. Any use of the sandbox wakes it again.

        A server that cannot save it leaves it running and raises.
        """
        self._run(self._original.hibernate())

    def wake(self, timeout: int | None = None) -> None:
        """Go on from where it was put to sleep. `timeout` is its idle time in seconds from now on."""
        self._run(self._original.wake(timeout))

    def reboot(self) -> None:
        """Start it again: processes end, files stay."""
        self._run(self._original.reboot())

    def power_cycle(self) -> None:
        """Start it again on a new machine: processes end, files stay."""
        self._run(self._original.power_cycle())

    def create_checkpoint(
        self,
        name: str,
        kind: str | None = None,
        promote_to_full: bool | None = None,
        retention_policy: Mapping[str, object] | None = None,
    ) -> Checkpoint:
        """Save the sandbox as it is now, while it goes on.

        `kind` is "full", memory and files, or "disk_only". The answer comes before the checkpoint is
        durable: `checkpoint.wait_until_ready()` where that matters. The `retention_policy`
        `{"mode": "delete_oldest", "maxCount": 5}` makes room by deleting the oldest of the same kind.
        """
        return view(
            Checkpoint,
            self._run(self._original.create_checkpoint(name, kind, promote_to_full, retention_policy)),
        )

    def list_checkpoints(self) -> builtins.list[Checkpoint]:
        """Its checkpoints, newest first."""
        return views(Checkpoint, self._run(self._original.list_checkpoints()))

    def restore_checkpoint(self, checkpoint_id: str) -> None:
        """Go back to a checkpoint of its own: files, and for a full one memory and processes.

        Everything that came later is lost, and its sessions end; its id and settings stay.
        """
        self._run(self._original.restore_checkpoint(checkpoint_id))

    def delete_checkpoint(self, checkpoint_id: str) -> None:
        """Delete a checkpoint. Sandboxes made from it stay; one that is not there is no error."""
        self._run(self._original.delete_checkpoint(checkpoint_id))

    def fork(
        self,
        count: int = 1,
        *,
        timeout: int = 0,
        envs: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        memory_mb: int | None = None,
    ) -> builtins.list[Sandbox]:
        """Make so many sandboxes that go on from where this one is now, processes included.

        All of them begin at the same instant, and this one goes on too. Close or kill each when done.
        """
        return views(
            Sandbox,
            self._run(
                self._original.fork(count, timeout=timeout, envs=envs, metadata=metadata, memory_mb=memory_mb)
            ),
        )

    def diff(self, since: str | None = None) -> builtins.list[FileChange]:
        """The files that changed since a checkpoint of its own, or since it was created, by path."""
        return self._run(self._original.diff(since))

    def kill(self, delete_secret_store: bool = False) -> None:
        """End it for good, its secret store too if no other has it; one that is stopped is no error."""
        self._run(self._original.kill(delete_secret_store))

    def close(self) -> None:
        """Detach from its sessions and close the connections. The sandbox itself goes on."""
        self._run(self._original.close())

    def __enter__(self) -> Sandbox:
        return self._self_or(Sandbox, self._run(self._original.__aenter__()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._original.__aexit__(kind, error, trace))

    @property
    def _original(self) -> sdk.Sandbox:
        return cast("sdk.Sandbox", self._wrapped)
