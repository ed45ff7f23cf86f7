"""A sandbox as the backend of deep agents: `create_deep_agent(backend=OpenComputerSandbox.open())`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

import httpx
from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox
from typing_extensions import override

from opencomputer.blocking.support import loop
from opencomputer.integrations import programs
from opencomputer.integrations.access import file_errors, require
from opencomputer.integrations.programs import Limits, Program, ProgramTimeout
from opencomputer.sdk.errors import OpenComputerError
from opencomputer.sdk.sandbox import Sandbox

DEFAULT_TIMEOUT_SECONDS = 30 * 60
_KEPT_OUTPUT_BYTES = 10 << 20
_TIMED_OUT = 124
_TRANSFERS_AT_ONCE = 8
# Deep agents keep long results and old messages in these, where only root could make them.
_FOLDERS = ("/large_tool_results", "/conversation_history", "/blobs")
_MAKE_FOLDERS = 'mkdir -p -- "$@" && chown -- "$SUDO_UID:$SUDO_GID" "$@"'


class OpenComputerSandbox(BaseSandbox):
    """Commands and files of one sandbox, for agents. Made by `open` or `aopen`, never directly.

    Its connection lives on the loop of `opencomputer.blocking`, so that blocking methods and async ones, on
    whatever event loop, can be mixed. Used as a context manager the sandbox is killed at the end.
    """

    enable_capture_offload = True

    def __init__(self, sandbox: Sandbox, timeout: int) -> None:
        self._sandbox = sandbox
        self._timeout = timeout

    @classmethod
    def open(
        cls, request: Coroutine[Any, Any, Sandbox] | None = None, *, timeout: int = DEFAULT_TIMEOUT_SECONDS
    ) -> Self:
        """Wait for `Sandbox.create(…)` or `Sandbox.connect(…)`, which is not to be awaited before.

        Without either a sandbox with the defaults is created. `timeout` is how many seconds a command may run
        that brings no limit of its own; 0 means for ever.
        """
        return cls(loop.run(_opened(request)), timeout)

    @classmethod
    async def aopen(
        cls, request: Coroutine[Any, Any, Sandbox] | None = None, *, timeout: int = DEFAULT_TIMEOUT_SECONDS
    ) -> Self:
        """As `open`, without blocking."""
        return cls(await loop.awaited(_opened(request)), timeout)

    @property
    @override
    def id(self) -> str:
        """The sandbox's id."""
        return self._sandbox.sandbox_id

    @override
    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a command with bash, its standard input empty. Errors come in its output, as they were written.

        One that runs too long is killed, with exit code 124. Of its output 10 MiB are kept.
        """
        return loop.run(self._execute(command, timeout))

    @override
    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """As `execute`, without blocking."""
        return await loop.awaited(self._execute(command, timeout))

    @override
    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files, whose paths must be absolute, and say for each whether that went well."""
        return loop.run(_each([self._upload(path, content) for path, content in files]))

    @override
    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """As `upload_files`, without blocking."""
        return await loop.awaited(_each([self._upload(path, content) for path, content in files]))

    @override
    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files, whose paths must be absolute, or say for each why that failed."""
        return loop.run(_each([self._download(path) for path in paths]))

    @override
    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """As `download_files`, without blocking."""
        return await loop.awaited(_each([self._download(path) for path in paths]))

    def kill(self) -> None:
        """End the sandbox for good, and the connection to it."""
        try:
            loop.run(self._sandbox.kill())
        finally:
            self.close()

    async def akill(self) -> None:
        """As `kill`, without blocking."""
        try:
            await loop.awaited(self._sandbox.kill())
        finally:
            await self.aclose()

    def close(self) -> None:
        """Close the connection. The sandbox goes on."""
        loop.run(self._sandbox.close())

    async def aclose(self) -> None:
        """As `close`, without blocking."""
        await loop.awaited(self._sandbox.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.akill()

    async def _execute(self, command: str, timeout: int | None) -> ExecuteResponse:
        seconds = self._timeout if timeout is None else timeout
        program = Program(["/bin/bash", "-c", command], merged=True)
        try:
            ended = await programs.run(self._sandbox, program, Limits(seconds or None, _KEPT_OUTPUT_BYTES))
        except ProgramTimeout as error:
            note = f"Command timed out after {seconds} seconds and was killed."
            written = error.stdout.decode(errors="replace")
            return ExecuteResponse(f"{written}\n{note}" if written else note, _TIMED_OUT)
        return ExecuteResponse(ended.stdout.decode(errors="replace"), ended.exit_code, ended.truncated)

    async def _upload(self, path: str, content: bytes) -> FileUploadResponse:
        if not path.startswith("/"):
            return FileUploadResponse(path, "invalid_path")
        try:
            await require(self._sandbox, "-w", path)
            with file_errors(path):
                await self._sandbox.files.write(path, content)
        except (OSError, OpenComputerError, httpx.TransportError) as error:
            return FileUploadResponse(path, _reason(error))
        return FileUploadResponse(path)

    async def _download(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path, error="invalid_path")
        try:
            await require(self._sandbox, "-r", path)
            with file_errors(path):
                return FileDownloadResponse(path, await self._sandbox.files.read_bytes(path))
        except (OSError, OpenComputerError, httpx.TransportError) as error:
            return FileDownloadResponse(path, error=_reason(error))


async def _opened(request: Coroutine[Any, Any, Sandbox] | None) -> Sandbox:
    sandbox = await (request or Sandbox.create())
    try:
        # Where that is not possible agents work all the same, but must do with short results.
        await programs.run(sandbox, Program(["/bin/sh", "-c", _MAKE_FOLDERS, "sh", *_FOLDERS], user="root"))
    except BaseException:
        await sandbox.close()
        raise
    return sandbox


async def _each(transfers: list[Coroutine[Any, Any, Any]]) -> list[Any]:
    """All of them, in their order, a few at a time."""
    turn = asyncio.Semaphore(_TRANSFERS_AT_ONCE)

    async def in_turn(transfer: Coroutine[Any, Any, Any]) -> Any:
        async with turn:
            return await transfer

    return list(await asyncio.gather(*(in_turn(each) for each in transfers)))


def _reason(error: Exception) -> str:
    """The protocol's word for it, where it has one."""
    match error:
        case FileNotFoundError():
            return "file_not_found"
        case PermissionError():
            return "permission_denied"
        case IsADirectoryError():
            return "is_directory"
        case _:
            return str(error)
