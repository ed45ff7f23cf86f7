"""The server itself, over standard input and output."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

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

_LEAVING_SECONDS = 40.0


def server_for(sandboxes: Sandboxes) -> MCPServer:
    """The tools that are open to this client."""

    @asynccontextmanager
    async def lifespan(_: MCPServer) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await sandboxes.leave()

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
    """Serve one client until it closes its end, or SIGTERM or SIGINT, which end this process."""
    asyncio.run(_serve(access))


async def _serve(access: Access) -> None:
    sandboxes = Sandboxes(access)
    loop = asyncio.get_running_loop()
    told: asyncio.Future[int] = loop.create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _tell, told, number)
    serving = asyncio.create_task(server_for(sandboxes).run_stdio_async())
    await asyncio.wait({serving, told}, return_when=asyncio.FIRST_COMPLETED)
    if not told.done():
        return await serving
    serving.cancel()
    left = asyncio.create_task(sandboxes.left.wait())
    await asyncio.wait({serving, left}, timeout=_LEAVING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    # The thread that waits for the client's next line cannot be called back, and all else would wait for it.
    os._exit(128 + told.result())


def _tell(told: asyncio.Future[int], number: int) -> None:
    if not told.done():
        told.set_result(number)


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
