"""One run of `oc`: its output, its server, and the loop that its work runs on."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from opencomputer.cli.config import Server, resolve, root_of
from opencomputer.cli.failures import CommandError
from opencomputer.cli.output import Output

if TYPE_CHECKING:
    import typer

    from opencomputer.sdk.control_plane import ControlPlane
    from opencomputer.sdk.durable.client import OpenComputer
    from opencomputer.sdk.hosted.client import HostedAgents
    from opencomputer.sdk.sandbox_link import SandboxLink

T = TypeVar("T")


@dataclass(frozen=True)
class Session:
    """What the global options of this run amount to."""

    output: Output
    flags: Server

    @property
    def server(self) -> Server:
        """The server this run talks to."""
        return resolve(self.flags, os.environ)

    def run(self, work: Callable[[ControlPlane], Awaitable[T]], *, warn: bool = True) -> T:
        """Do the work with a connection to the server, and close that afterwards.

        Without a key there is a warning first, unless `warn` says that the command tells of that itself.
        """
        # Loaded here, because commands that need no server should start without all that.
        import asyncio

        from opencomputer.sdk.control_plane import ControlPlane
        from opencomputer.sdk.endpoint import Endpoint, api_base

        server = self._server_with_key() if warn else self.server

        async def connected() -> T:
            async with ControlPlane(Endpoint(api_base(server.api_url), server.api_key)) as plane:
                return await work(plane)

        return asyncio.run(connected())

    def run_on(self, sandbox: str, work: Callable[[SandboxLink], Awaitable[T]]) -> T:
        """Do the work with a link to one sandbox; where a durable session is named, to its hands."""
        from opencomputer.sdk.sandbox_link import SandboxLink

        sandbox_id = self._hands_of(sandbox) if sandbox.startswith("ses_") else sandbox
        return self.run(lambda plane: work(SandboxLink(plane, sandbox_id)))

    def _hands_of(self, session_id: str) -> str:
        async def hands(durable: OpenComputer) -> object:
            return ((await durable.sessions.get(session_id)).data.sandboxes or {}).get("hands")

        found = self.run_durable(hands)
        if not found:
            raise CommandError(f"{session_id} has no machine for its hands yet")
        return str(found)

    def run_durable(self, work: Callable[[OpenComputer], Awaitable[T]]) -> T:
        """Do the work with the server's durable agents and sessions, and close the connection afterwards."""
        import asyncio

        from opencomputer.sdk.durable.client import OpenComputer

        server = self._server_with_key()

        async def connected() -> T:
            async with OpenComputer(server.api_key, base_url=server.sessions_url) as durable:
                return await work(durable)

        return asyncio.run(connected())

    def run_hosted(self, work: Callable[[HostedAgents], Awaitable[T]]) -> T:
        """Do the work with the server's hosted agents, and close the connection afterwards."""
        import asyncio

        from opencomputer.sdk.hosted.client import HostedAgents

        server = self._server_with_key()

        async def connected() -> T:
            async with HostedAgents(server.api_key, root_of(server.sessions_url)) as hosted:
                return await work(hosted)

        return asyncio.run(connected())

    def _server_with_key(self) -> Server:
        server = self.server
        if not server.api_key:
            self.output.warn(
                "no API key. Sign in with `oc login`, set OPENCOMPUTER_API_KEY, or pass --api-key."
            )
        return server


def session_of(context: typer.Context) -> Session:
    """The run that a command belongs to."""
    return cast(Session, context.obj)
