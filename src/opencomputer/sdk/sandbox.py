"""A sandbox: an isolated Linux machine, and everything that can be done in it."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import TracebackType

from opencomputer.sdk import answers, diffs, forks, power
from opencomputer.sdk.agent import Agent
from opencomputer.sdk.answers import Described, JsonObject
from opencomputer.sdk.audit import AuditTrail
from opencomputer.sdk.build_stream import LogCallback
from opencomputer.sdk.checkpoints import Checkpoint, Checkpoints
from opencomputer.sdk.control_plane import Call, ControlPlane, get
from opencomputer.sdk.diffs import FileChange
from opencomputer.sdk.durable.bodies import set_members
from opencomputer.sdk.endpoint import Endpoint
from opencomputer.sdk.exec import Exec
from opencomputer.sdk.file_urls import FileUrls
from opencomputer.sdk.files import Filesystem
from opencomputer.sdk.forks import ForkOptions
from opencomputer.sdk.http import httpx
from opencomputer.sdk.image import Image
from opencomputer.sdk.logs import SandboxLogs
from opencomputer.sdk.mounts import Mounts
from opencomputer.sdk.opening import created, made, opened
from opencomputer.sdk.patches import CheckpointPatches
from opencomputer.sdk.previews import SandboxPreviews
from opencomputer.sdk.pty import Pty
from opencomputer.sdk.sandbox_link import SandboxLink
from opencomputer.sdk.sandbox_request import SandboxRequest
from opencomputer.sdk.scaling import SandboxScaling
from opencomputer.sdk.secret_stores import SandboxHosts
from opencomputer.sdk.snapshots import manifest
from opencomputer.sdk.texts import listed_if_given


class Sandbox(
    CheckpointPatches, FileUrls, SandboxPreviews, SandboxScaling, SandboxHosts, AuditTrail, SandboxLogs
):
    """One sandbox. Made by `create` or `connect`, never directly.

    Used as a context manager the sandbox is killed at the end. What the server refuses raises an
    `OpenComputerError`; a server that cannot be reached, an `httpx.TransportError`.
    """

    def __init__(self, plane: ControlPlane, description: JsonObject) -> None:
        self._link = SandboxLink(plane, answers.required_text(description, "sandboxID"))
        self._description = description
        self._status = answers.text(description, "status", "running")
        self._memory_restored = answers.flag(description, "memoryRestored")
        self._preview_auth_token = answers.text(description, "previewAuthToken")
        self._webhooks = answers.json_objects(description.get("webhooks"))
        self._link.learn(description)

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
    ) -> SandboxRequest:
        """Ask for a new sandbox: `await` this, or `async with` it to have the sandbox killed at the end.

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
        body: JsonObject = {"templateID": template, "timeout": timeout} | set_members(
            envs=envs,
            metadata=metadata,
            burst=burst,
            sandboxFamily=sandbox_family,
            diskMB=disk_mb,
            memoryMB=memory_mb,
            secretStore=secret_store,
            image=None if image is None else manifest(image),
            snapshot=snapshot,
            previewAuth=None if preview_auth is None else {"scheme": "bearer", **preview_auth},
            cpuCount=cpu_count,
            webhooks=None if webhooks is None else [dict(each) for each in webhooks],
            egressAllowlist=listed_if_given(egress_allowlist, "egress_allowlist"),
        )
        return SandboxRequest(created(cls, Endpoint.resolve(api_key, api_url), body, on_build_log))

    @classmethod
    async def connect(
        cls, sandbox_id: str, api_key: str | None = None, api_url: str | None = None
    ) -> Sandbox:
        """Take up a sandbox that exists, running or not. Raises `NotFoundError` when there is none."""
        plane = ControlPlane(Endpoint.resolve(api_key, api_url))
        return await opened(cls, plane, get(SandboxLink(plane, sandbox_id).path()))

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
    ) -> SandboxRequest:
        """Ask for a sandbox that goes on from a checkpoint: `await` this, or `async with` it.

        From a full checkpoint its processes go on too, where `memory_restored` says so. `envs` and
        `metadata` are added to what it inherits. Waits for a checkpoint that is not ready yet.
        """
        options = ForkOptions(timeout, envs, metadata, memory_mb, secret_store)
        call = forks.from_checkpoint(checkpoint_id, options)
        return SandboxRequest(made(cls, Endpoint.resolve(api_key, api_url), call))

    @staticmethod
    async def list(api_key: str | None = None, api_url: str | None = None) -> list[Described]:
        """The organisation's sandboxes that are not stopped, newest first, as the server describes them."""
        async with ControlPlane(Endpoint.resolve(api_key, api_url)) as plane:
            return answers.json_objects(await plane.json(get("/sandboxes")))

    @property
    def sandbox_id(self) -> str:
        """The sandbox's id."""
        return self._link.sandbox_id

    @property
    def id(self) -> str:
        """The same as `sandbox_id`."""
        return self._link.sandbox_id

    @property
    def status(self) -> str:
        """What was last heard of its state: "running", "hibernated", "stopped" or "error"."""
        return self._status

    @property
    def template(self) -> str:
        """The template it was made from."""
        return answers.text(self._description, "templateID")

    @property
    def end_at(self) -> str | None:
        """When its host will be destroyed (RFC 3339), or None when that is not planned."""
        return answers.text(self._description, "endAt") or None

    @property
    def domain(self) -> str:
        """The domain of its preview addresses, "" when the server has none."""
        return answers.text(self._description, "sandboxDomain")

    @property
    def memory_mb(self) -> int | None:
        """Its memory at the time it was created or connected to, if the server says."""
        return answers.whole(self._description, "memoryMB")

    @property
    def cpu_count(self) -> int | None:
        """Its processors at the time it was created or connected to, if the server says."""
        return answers.whole(self._description, "cpuCount")

    @property
    def webhooks(self) -> builtins.list[Described]:
        """The destinations it was created with: `[{"id", "url", "secret"?}]`, the secrets only told then."""
        return self._webhooks

    @property
    def from_checkpoint_id(self) -> str | None:
        """The checkpoint it was made from, if it was."""
        return answers.text(self._description, "fromCheckpointId") or None

    @property
    def memory_restored(self) -> bool:
        """Whether it was made by a fork that took over processes and memory, not only files."""
        return self._memory_restored

    @property
    def patch_error(self) -> str | None:
        """Why the last patch of its checkpoint failed in it, as far as was last heard; None if none did."""
        return answers.text(self._description, "patchError") or None

    @property
    def recovered(self) -> int | None:
        """Which step its last wake had to take because its memory was of no use; None where it was.

        2: it began from its files, and its processes were lost.
        """
        return answers.whole(self._description, "recovered")

    @cached_property
    def agent(self) -> Agent:
        """Claude agents that work inside it."""
        return Agent(self._link)

    @cached_property
    def exec(self) -> Exec:
        """Programs that run in it."""
        return Exec(self._link)

    @cached_property
    def files(self) -> Filesystem:
        """Its files."""
        return Filesystem(self._link)

    @cached_property
    def pty(self) -> Pty:
        """Terminals in it."""
        return Pty(self._link)

    @cached_property
    def mounts(self) -> Mounts:
        """Remote file systems in it."""
        return Mounts(self._link)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """Its saved states."""
        return Checkpoints(self._link)

    @property
    def commands(self) -> Exec:
        """The old name of `exec`."""
        warnings.warn("Sandbox.commands is deprecated, use Sandbox.exec", DeprecationWarning, stacklevel=2)
        return self.exec

    async def is_running(self) -> bool:
        """Whether it runs now. A sandbox that the server does not know, or will not show, does not."""
        try:
            answer = answers.json_object(await self._link.plane.json(get(self._link.path())))
        except httpx.HTTPStatusError:
            return False
        self._heard(answer)
        return self._status == "running"

    async def set_timeout(self, timeout: int) -> None:
        """Set the idle time in seconds after which the server puts it away; 0 for never."""
        call = Call("POST", self._link.path("timeout"), repeatable=True, json={"timeout": timeout})
        await self._link.plane.send(call)

    async def hibernate(self) -> None:
        """Save memory and files and give the machine up. Any use of the sandbox wakes it again.

        A server that cannot save it leaves it running and raises.
        """
        self._heard(answers.json_object(await self._link.plane.json(power.hibernate(self._link))))

    async def wake(self, timeout: int | None = None) -> None:
        """Go on from where it was put to sleep. `timeout` is its idle time in seconds from now on."""
        await self._link.plane.send(power.wake(self._link, timeout))
        await self._refresh()

    async def reboot(self) -> None:
        """Start it again: processes end, files stay."""
        await self._link.plane.send(power.reboot(self._link))

    async def power_cycle(self) -> None:
        """Start it again on a new machine: processes end, files stay."""
        await self._link.plane.send(power.power_cycle(self._link))

    async def create_checkpoint(
        self,
        name: str,
        kind: str | None = None,
        promote_to_full: bool | None = None,
        retention_policy: Mapping[str, object] | None = None,
    ) -> Checkpoint:
        """Save the sandbox as it is now, while it goes on.

        `kind` is "full", memory and files, or "disk_only". The answer comes before the checkpoint is
        durable: `await checkpoint.wait_until_ready()` where that matters. The `retention_policy`
        `{"mode": "delete_oldest", "maxCount": 5}` makes room by deleting the oldest of the same kind.
        """
        return await self.checkpoints.create(name, kind, promote_to_full, retention_policy)

    async def list_checkpoints(self) -> builtins.list[Checkpoint]:
        """Its checkpoints, newest first."""
        return await self.checkpoints.list()

    async def restore_checkpoint(self, checkpoint_id: str) -> None:
        """Go back to a checkpoint of its own: files, and for a full one memory and processes.

        Everything that came later is lost, and its sessions end; its id and settings stay.
        """
        await self.checkpoints.restore(checkpoint_id)
        await self._refresh()

    async def delete_checkpoint(self, checkpoint_id: str) -> None:
        """Delete a checkpoint. Sandboxes made from it stay; one that is not there is no error."""
        await self.checkpoints.delete(checkpoint_id)

    async def fork(
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
        options = ForkOptions(timeout, envs, metadata, memory_mb)
        made = answers.json_objects(await self._link.plane.json(forks.fork(self._link, count, options)))
        return [type(self)(ControlPlane(self._link.plane.endpoint), each) for each in made]

    async def diff(self, since: str | None = None) -> builtins.list[FileChange]:
        """The files that changed since a checkpoint of its own, or since it was created, by path."""
        return await diffs.diff(self._link, since)

    async def kill(self, delete_secret_store: bool = False) -> None:
        """End it for good, its secret store too if no other has it; one that is stopped is no error."""
        params = {"deleteSecretStore": "true"} if delete_secret_store else {}
        await self._link.plane.send(Call("DELETE", self._link.path(), params=params))
        self._status = "stopped"

    async def _refresh(self) -> None:
        self._description = answers.json_object(await self._link.plane.json(get(self._link.path())))
        self._link.learn(self._description)
        self._heard(self._description)

    def _heard(self, answer: JsonObject) -> None:
        self._status = answers.text(answer, "status", self._status)

    async def close(self) -> None:
        """Detach from its sessions and close the connections. The sandbox itself goes on."""
        await self._link.aclose()

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._status != "stopped":
                await self.kill()
        except httpx.HTTPError as failure:
            if error is None:
                raise
            error.add_note(f"the sandbox could not be killed either: {failure}")
        finally:
            await self.close()

    def __repr__(self) -> str:
        return f"<Sandbox {self.sandbox_id} {self.status}>"
