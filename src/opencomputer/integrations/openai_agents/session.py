"""One session of the OpenAI Agents SDK in one sandbox."""

from __future__ import annotations

import io
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from agents.sandbox import (
    ExecResult,
    ExposedPortEndpoint,
    User,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
)
from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    ExposedPortUnavailableError,
    WorkspaceStartError,
)
from agents.sandbox.session import BaseSandboxSession
from agents.sandbox.session.bounded_read import collect_bounded
from agents.sandbox.session.mount_lifecycle import with_ephemeral_mounts_removed
from agents.sandbox.session.pty_types import PtyExecUpdate
from agents.sandbox.session.runtime_helpers import RESOLVE_WORKSPACE_PATH_HELPER, RuntimeHelperScript
from agents.sandbox.util.tar_utils import UnsafeTarMemberError, validate_tar_bytes
from typing_extensions import override

from opencomputer.integrations.access import require
from opencomputer.integrations.openai_agents.failures import (
    UNREACHABLE,
    content_of,
    name_of,
    reading,
    transported,
    writing,
)
from opencomputer.integrations.openai_agents.records import OpenComputerSandboxSessionState
from opencomputer.integrations.openai_agents.terminals import Patience, Start, Terminals
from opencomputer.integrations.programs import Limits, Program, ProgramTimeout, run
from opencomputer.sdk.errors import SandboxStoppedError
from opencomputer.sdk.sandbox import Sandbox

# In our templates /workspace leads to the home directory. A workspace of its own is not saved with all that
# is in there, and can be listed.
_MAKE_ROOT = """
if [ -L "$1" ] && [ "$(readlink -f -- "$1")" = "$(readlink -f ~)" ]; then sudo -n rm -- "$1" || exit; fi
if [ -d "$1" ]; then exit; fi
mkdir -p -- "$1" 2>/dev/null && exit
sudo -n mkdir -p -- "$1" && sudo -n chown -- "$(id -u):$(id -g)" "$1"
"""


class OpenComputerSandboxSession(BaseSandboxSession):
    """Commands, files and terminals of one sandbox. Made by the client, never directly."""

    state: OpenComputerSandboxSessionState

    def __init__(
        self, state: OpenComputerSandboxSessionState, sandbox: Sandbox, *, found: bool = False
    ) -> None:
        self.state = state  # pyright: ignore[reportIncompatibleVariableOverride]
        self._sandbox = sandbox
        self._terminals = Terminals()
        self._ended = False
        self._set_start_state_preserved(found)

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox itself, for all that the framework has no word for."""
        return self._sandbox

    @property
    def ended(self) -> bool:
        """Whether this has let go of the sandbox, which is gone or asleep."""
        return self._ended

    async def remove(self) -> None:
        """End the sandbox for good, unless this has let go of it."""
        if not self._ended:
            await self._sandbox.kill()
            self._ended = True
            await self._sandbox.close()

    @override
    async def running(self) -> bool:
        return not self._ended and await self._sandbox.is_running()

    @override
    def supports_pty(self) -> bool:
        return True

    @override
    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | User | None = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        prepared = self._prepare_exec_command(*command, shell=shell, user=user)
        async with transported(prepared):
            start = Start(prepared, self.state.manifest.root, await self._environment(), tty)
            return await self._terminals.start(
                self._sandbox, start, Patience(yield_time_s, max_output_tokens)
            )

    @override
    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        async with transported([chars]):
            return await self._terminals.write(session_id, chars, Patience(yield_time_s, max_output_tokens))

    @override
    async def pty_terminate_all(self) -> None:
        await self._terminals.end_all()

    @override
    async def read(self, path: Path | str, *, user: str | User | None = None) -> io.IOBase:
        checked = await self._readable(path, user)
        async with reading(Path(path)):
            return io.BytesIO(await self._sandbox.files.read_bytes(checked))

    @override
    async def _read_bounded(self, path: Path, *, max_bytes: int) -> bytes:
        checked = await self._readable(path, None)
        async with reading(path):
            return await collect_bounded(self._sandbox.files.read_stream(checked), max_bytes)

    @override
    async def write(self, path: Path | str, data: io.IOBase, *, user: str | User | None = None) -> None:
        content = content_of(data, Path(path))
        checked = (await self._validate_path_access(path, for_write=True)).as_posix()
        async with writing(Path(path)):
            await require(self._sandbox, "-w", checked, name_of(user))
            await self._sandbox.files.write(checked, content)

    @override
    async def persist_workspace(self) -> io.IOBase:
        root = self._workspace_root_path()
        return await with_ephemeral_mounts_removed(
            self,
            self._pack,
            error_path=root,
            error_cls=WorkspaceArchiveReadError,
            operation_error_context_key="snapshot_error_before_remount_corruption",
        )

    @override
    async def hydrate_workspace(self, data: io.IOBase) -> None:
        root = self._workspace_root_path()
        content = content_of(data, root)
        try:
            validate_tar_bytes(content, allow_external_symlink_targets=False)
        except UnsafeTarMemberError as error:
            context = {"reason": "unsafe_or_invalid_tar", "member": error.member}
            raise WorkspaceArchiveWriteError(path=root, context=context, cause=error) from error
        async with writing(root), self._archive() as archive:
            await self._sandbox.files.write(archive, content)
            ended = await run(self._sandbox, Program(["tar", "-xf", archive, "-C", root.as_posix()]))
            if ended.exit_code != 0:
                raise OSError(ended.stderr.decode(errors="replace"))

    @override
    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        prepared = [str(part) for part in command]
        if self._ended:
            raise ExecTransportError(command=prepared, message="the session has ended", retryable=False)
        async with transported(prepared):
            program = Program(prepared, cwd=self.state.manifest.root, env=await self._environment())
            try:
                ended = await run(self._sandbox, program, Limits(timeout))
            except ProgramTimeout as error:
                raise ExecTimeoutError(command=prepared, timeout_s=timeout, cause=error) from error
            return ExecResult(stdout=ended.stdout, stderr=ended.stderr, exit_code=ended.exit_code)

    @override
    async def _resolve_exposed_port(self, port: int) -> ExposedPortEndpoint:
        try:
            preview = await self._sandbox.create_preview_url(port)
            if self.state.options.port_grant_seconds is not None:
                preview = await self._sandbox.create_preview_grant(
                    port, self.state.options.port_grant_seconds
                )
        except UNREACHABLE as error:
            raise ExposedPortUnavailableError(
                port=port,
                exposed_ports=self.state.exposed_ports,
                reason="backend_unavailable",
                cause=error,
            ) from error
        url = urlsplit(str(preview["url"]))
        tls = url.scheme == "https"
        return ExposedPortEndpoint(url.hostname or "", url.port or (443 if tls else 80), tls, url.query)

    @override
    async def _prepare_backend_workspace(self) -> None:
        root = self.state.manifest.root
        made = await run(self._sandbox, Program(["/bin/sh", "-c", _MAKE_ROOT, "sh", root]))
        if made.exit_code != 0:
            context: dict[str, object] = {"stderr": made.stderr.decode(errors="replace")}
            raise WorkspaceStartError(path=Path(root), context=context)

    @override
    async def _shutdown_backend(self) -> None:
        if self.state.options.hibernate_on_exit and not self._ended:
            with suppress(SandboxStoppedError):
                await self._sandbox.hibernate()
            self._ended = True
            await self._sandbox.close()
        else:
            await self.remove()

    @override
    async def _validate_path_access(self, path: Path | str, *, for_write: bool = False) -> Path:
        return await self._validate_remote_path_access(path, for_write=for_write)

    @override
    def _runtime_helpers(self) -> tuple[RuntimeHelperScript, ...]:
        return (RESOLVE_WORKSPACE_PATH_HELPER,)

    async def _environment(self) -> dict[str, str]:
        return await self.state.manifest.environment.resolve()

    async def _readable(self, path: Path | str, user: str | User | None) -> str:
        checked = (await self._validate_path_access(path)).as_posix()
        async with reading(Path(path)):
            await require(self._sandbox, "-r", checked, name_of(user))
        return checked

    async def _pack(self) -> io.IOBase:
        root = self._workspace_root_path()
        left_out = sorted(each.as_posix() for each in self._persist_workspace_skip_relpaths())
        async with reading(root), self._archive() as archive:
            excluded = [f"--exclude=./{each}" for each in left_out]
            command = ["tar", *excluded, "-C", root.as_posix(), "-cf", archive, "."]
            ended = await run(self._sandbox, Program(command))
            if ended.exit_code != 0:
                raise OSError(ended.stderr.decode(errors="replace"))
            return io.BytesIO(await self._sandbox.files.read_bytes(archive))

    @asynccontextmanager
    async def _archive(self) -> AsyncGenerator[str]:
        """Where an archive lies on its way in or out."""
        archive = f"/tmp/.workspace-{secrets.token_hex(8)}.tar"
        try:
            yield archive
        finally:
            await self._sandbox.files.remove(archive)
