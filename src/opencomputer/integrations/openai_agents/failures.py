"""Our failures as the framework knows them, and the arguments of its calls made plain."""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from agents.sandbox import (
    User,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
    WorkspaceWriteTypeError,
)
from agents.sandbox.errors import ExecTransportError

from opencomputer.integrations.access import file_errors
from opencomputer.integrations.programs import ProgramLost
from opencomputer.sdk.errors import OpenComputerError, UnavailableError

UNREACHABLE = (OpenComputerError, ProgramLost, httpx.TransportError)
"""What says that the sandbox, or the way to it, has failed."""


def name_of(user: str | User | None) -> str | None:
    return user.name if isinstance(user, User) else user


def content_of(data: io.IOBase, path: Path) -> bytes:
    content: object = data.read()
    if isinstance(content, str):
        return content.encode()
    if not isinstance(content, bytes | bytearray):
        raise WorkspaceWriteTypeError(path=path, actual_type=type(content).__name__)
    return bytes(content)


@asynccontextmanager
async def transported(command: list[str]) -> AsyncGenerator[None]:
    try:
        yield
    except UNREACHABLE as error:
        passing = isinstance(error, UnavailableError | httpx.ConnectError)
        raise ExecTransportError(
            command=command, message=f"the sandbox failed: {error}", cause=error, retryable=passing
        ) from error


@asynccontextmanager
async def reading(path: Path) -> AsyncGenerator[None]:
    try:
        with file_errors(str(path)):
            yield
    except FileNotFoundError as error:
        raise WorkspaceReadNotFoundError(path=path, cause=error) from error
    except (OSError, *UNREACHABLE) as error:
        raise WorkspaceArchiveReadError(path=path, context={"reason": str(error)}, cause=error) from error


@asynccontextmanager
async def writing(path: Path) -> AsyncGenerator[None]:
    try:
        with file_errors(str(path)):
            yield
    except (OSError, *UNREACHABLE) as error:
        raise WorkspaceArchiveWriteError(path=path, context={"reason": str(error)}, cause=error) from error
