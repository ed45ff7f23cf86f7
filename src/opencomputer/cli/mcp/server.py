"""The server itself, over standard input and output."""

from __future__ import annotations

import asyncio
import functools
import inspect
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from opencomputer.cli.mcp.refusals import told
from opencomputer.cli.mcp.sandboxes import Access, Sandboxes
from opencomputer.cli.mcp.tools import Result, Tools
from opencomputer.sdk.version import installed_version

_INSTRUCTIONS = """\
Sandboxes are isolated Linux machines in which any command may be run without harm to the person's computer.
Make one with create_sandbox, work in it with run_command, write_file and read_file, and kill it at the end.
"""
_INSTRUCTIONS_FOR_ONE = """\
You have one sandbox: an isolated Linux machine in which any command may be run without harm to the person's
computer. Work in it with run_command, write_file and read_file.
"""


def server_for(sandboxes: Sandboxes) -> MCPServer:
    """The tools that are open to this client."""

    @asynccontextmanager
    async def lifespan(_: MCPServer) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await asyncio.shield(sandboxes.leave())

    only = sandboxes.access.only is not None
    server = MCPServer(
        "opencomputer",
        title="OpenComputer sandboxes",
        instructions=_INSTRUCTIONS_FOR_ONE if only else _INSTRUCTIONS,
        version=installed_version(),
        log_level="ERROR",
        lifespan=lifespan,
    )
    for spec in Tools(sandboxes).specs():
        if not (only and spec.many):
            server.add_tool(
                _explaining(spec.function),
                title=spec.title,
                description=inspect.getdoc(spec.function),
                annotations=spec.annotations,
            )
    return server


def serve(access: Access) -> None:
    """Serve one client until it closes its end, or SIGTERM or SIGINT."""
    with suppress(asyncio.CancelledError):
        asyncio.run(_serve(access))


async def _serve(access: Access) -> None:
    serving = asyncio.current_task()
    assert serving is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.cancel)
    await server_for(Sandboxes(access)).run_stdio_async()


def _explaining(function: Callable[..., Awaitable[Result]]) -> Callable[..., Awaitable[Result]]:
    """The same tool, whose refusals say what to do next."""

    @functools.wraps(function)
    async def tool(*arguments: object, **named: object) -> Result:
        try:
            return await function(*arguments, **named)
        except Exception as error:
            words = told(error)
            if words is None:
                raise
            raise ToolError(words) from error

    return tool
