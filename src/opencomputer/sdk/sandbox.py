"""A sandbox: an isolated Linux machine, and everything that can be done in it."""

from __future__ import annotations

import warnings
from collections.abc import Coroutine, Generator
from functools import cached_property
from types import TracebackType
from typing import Any

import httpx

from opencomputer.sdk import answers
from opencomputer.sdk.agent import Agent
from opencomputer.sdk.answers import JsonObject
from opencomputer.sdk.control_plane import Call, ControlPlane, get, post_once, with_timeout
from opencomputer.sdk.endpoint import Endpoint
from opencomputer.sdk.exec import Exec
from opencomputer.sdk.files import Filesystem
from opencomputer.sdk.pty import Pty
from opencomputer.sdk.sandbox_link import SandboxLink

_CREATE_SECONDS = 120.0


class Sandbox:
    """One sandbox. Made by `create` or `connect`, never directly.

    Used as a context manager the sandbox is killed at the end. What the server refuses raises an
    `OpenComputerError`; a server that cannot be reached, an `httpx.TransportError`.
    """

    def __init__(self, plane: ControlPlane, description: JsonObject) -> None:
        self._link = SandboxLink(plane, answers.required_text(description, "sandboxID"))
        self._description = description
        self._status = answers.text(description, "status", "running")
        self._link.learn(description)

    @classmethod
    def create(
        cls,
        template: str = "base",
        timeout: int = 0,
        api_key: str | None = None,
        api_url: str | None = None,
        envs: dict[str, str] | None = None,
        metadata: dict[str, str] | None = None,
        *,
        disk_mb: int | None = None,
        memory_mb: int | None = None,
        cpu_count: int | None = None,
    ) -> SandboxRequest:
        """Ask for a new sandbox: `await` this, or `async with` it to have the sandbox killed at the end.

        It is usable when this returns. `timeout` is the idle time in seconds after which the server puts it
        away, 0 for never. `envs` are seen by every process in it; `metadata` is for your own use. The key
        and the address of the server default to `OPENCOMPUTER_API_KEY` and `OPENCOMPUTER_API_URL`.
        """
        body: JsonObject = {"templateID": template, "timeout": timeout}
        options = {
            "envs": envs,
            "metadata": metadata,
            "diskMB": disk_mb,
            "memoryMB": memory_mb,
            "cpuCount": cpu_count,
        }
        body |= {name: value for name, value in options.items() if value is not None}
        return SandboxRequest(_create(cls, Endpoint.resolve(api_key, api_url), body))

    @classmethod
    async def connect(
        cls, sandbox_id: str, api_key: str | None = None, api_url: str | None = None
    ) -> Sandbox:
        """Take up a sandbox that exists, running or not. Raises `NotFoundError` when there is none."""
        plane = ControlPlane(Endpoint.resolve(api_key, api_url))
        return await _opened(cls, plane, get(SandboxLink(plane, sandbox_id).path()))

    @staticmethod
    async def list(api_key: str | None = None, api_url: str | None = None) -> list[JsonObject]:
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
        self._status = answers.text(answer, "status", self._status)
        return self._status == "running"

    async def set_timeout(self, timeout: int) -> None:
        """Set the idle time in seconds after which the server puts it away; 0 for never."""
        call = Call("POST", self._link.path("timeout"), repeatable=True, json={"timeout": timeout})
        await self._link.plane.send(call)

    async def kill(self) -> None:
        """End it for good, with all that runs in it; one that is stopped already is no error."""
        await self._link.plane.send(Call("DELETE", self._link.path()))
        self._status = "stopped"

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


class SandboxRequest(Coroutine[Any, Any, Sandbox]):
    """A sandbox that is being asked for; see `Sandbox.create`. Nothing is sent before it is awaited."""

    def __init__(self, request: Coroutine[Any, Any, Sandbox]) -> None:
        self._request = request
        self._sandbox: Sandbox | None = None

    def send(self, value: Any) -> Any:
        """Resume the request, as an event loop does."""
        return self._request.send(value)

    def throw(self, *arguments: Any) -> Any:
        """Raise an exception in the request, as an event loop does."""
        return self._request.throw(*arguments)

    def close(self) -> None:
        """Give the request up."""
        self._request.close()

    def __await__(self) -> Generator[Any, Any, Sandbox]:
        return self._request.__await__()

    async def __aenter__(self) -> Sandbox:
        self._sandbox = await self._request
        return self._sandbox

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sandbox:
            await self._sandbox.__aexit__(kind, error, trace)


async def _create(kind: type[Sandbox], endpoint: Endpoint, body: JsonObject) -> Sandbox:
    plane = ControlPlane(endpoint)
    return await _opened(kind, plane, with_timeout(post_once("/sandboxes", body), _CREATE_SECONDS))


async def _opened(kind: type[Sandbox], plane: ControlPlane, call: Call) -> Sandbox:
    try:
        return kind(plane, answers.json_object(await plane.json(call)))
    except BaseException:
        await plane.aclose()
        raise
