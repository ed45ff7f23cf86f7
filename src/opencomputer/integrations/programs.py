"""Programs in a sandbox as frameworks run them: with an input that ends, a user, a deadline and a limit."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from opencomputer.sdk.http import httpx

if TYPE_CHECKING:
    from opencomputer.sdk.exec_session import ExecSession
    from opencomputer.sdk.sandbox import Sandbox

_SUDO = "/usr/local/bin/sudo"
_ENV = "/usr/bin/env"
_NO_INPUT = "/dev/null"
_STOPPED = 137
_CLEANUP_SECONDS = 10.0
# A caller that is gone for so long does not come back for its program.
_ABANDONED_SECONDS = 300


@dataclass(frozen=True)
class Program:
    """What to run. Without `input` its standard input is empty; `merged` sends errors to standard output.

    A relative `cwd` begins at the home directory. Another `user` than the sandbox's is reached by `sudo`.
    """

    arguments: Sequence[str]
    input: bytes | None = None
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    user: str | None = None
    merged: bool = False


@dataclass(frozen=True)
class Limits:
    """How long a program may run, and how much of each of its outputs is kept.

    One that writes more goes on, and the rest is dropped; with `stop_at_limit` it is killed at once.
    """

    seconds: float | None = None
    output_bytes: int | None = None
    stop_at_limit: bool = False


@dataclass(frozen=True)
class Ended:
    """How a program ended. `truncated` says that it wrote more than was to be kept."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False


class ProgramTimeout(TimeoutError):
    """The program ran for longer than it may and was killed. What it had written by then is here."""

    def __init__(self, seconds: float, stdout: bytes, stderr: bytes) -> None:
        super().__init__(f"the program was killed after {seconds:g} s")
        self.stdout = stdout
        self.stderr = stderr


class ProgramLost(ConnectionError):
    """The link to the program was lost for good: its sandbox has ended, or cannot be reached any more."""


async def run(sandbox: Sandbox, program: Program, limits: Limits | None = None) -> Ended:
    """Run a program to its end and return what it wrote, whatever its exit code.

    It is killed, with the processes of its group, when its time is over or the caller is cancelled. What it
    left running in the background is not waited for.
    """
    async with _input_file(sandbox, program.input) as file:
        return await _Run(limits or Limits()).until_end(sandbox, program, file)


class _Run:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._overflow = asyncio.Event()

    async def until_end(self, sandbox: Sandbox, program: Program, file: str) -> Ended:
        arguments = _arguments(program, file)
        session = await sandbox.exec.start(
            arguments[0],
            args=arguments[1:],
            env=dict(program.env),
            cwd=program.cwd,
            max_run_after_disconnect=_ABANDONED_SECONDS,
            on_stdout=lambda data: self._keep(self._stdout, data),
            on_stderr=lambda data: self._keep(self._stderr, data),
            reconnect=True,
        )
        try:
            code = await self._exit_code(session)
        finally:
            await _end(session)
        return Ended(code, bytes(self._stdout), bytes(self._stderr), self._overflow.is_set())

    async def _exit_code(self, session: ExecSession) -> int:
        done = session.done
        overflow = asyncio.ensure_future(self._overflow.wait())
        awaited = {done, overflow} if self._limits.stop_at_limit else {done}
        try:
            ended, _ = await asyncio.wait(
                awaited, timeout=self._limits.seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            overflow.cancel()
        if not ended:
            raise ProgramTimeout(self._limits.seconds or 0, bytes(self._stdout), bytes(self._stderr))
        if done not in ended:
            return _STOPPED
        code = done.result()
        if code < 0:
            raise ProgramLost(session.link_end or "the link to the program was lost")
        return code

    def _keep(self, output: bytearray, data: bytes) -> None:
        limit = self._limits.output_bytes
        output += data
        if limit is not None and len(output) > limit:
            del output[limit:]
            self._overflow.set()


async def _end(session: ExecSession) -> None:
    """Whatever ended the program, or the way to it, is the reason, and not what fails here because of it."""
    with anyio.move_on_after(_CLEANUP_SECONDS, shield=True), suppress(httpx.HTTPError):
        await session.kill()
        await session.done
    with anyio.move_on_after(_CLEANUP_SECONDS, shield=True):
        await session.close()


def as_user(user: str) -> list[str]:
    """What to put before a command that is to run as somebody else. No search path can replace it."""
    return [_SUDO, "-n", "-u", user, "--"]


def _arguments(program: Program, file: str) -> list[str]:
    """The program behind a shell that redirects, and `sudo` where it is to be somebody else."""
    arguments = list(program.arguments)
    if program.user is not None:
        variables = [f"{name}={value}" for name, value in program.env.items()]
        arguments = [*as_user(program.user), _ENV, *variables, *arguments]
    redirected = 'exec "$@" < "$0" 2>&1' if program.merged else 'exec "$@" < "$0"'
    return ["/bin/sh", "-c", redirected, file, *arguments]


@asynccontextmanager
async def _input_file(sandbox: Sandbox, content: bytes | None) -> AsyncGenerator[str]:
    """A file in the sandbox to read from: what is sent to a session's standard input has no end."""
    if not content:
        yield _NO_INPUT
        return
    file = f"/tmp/.input-{secrets.token_hex(8)}"
    try:
        await sandbox.files.write(file, content)
        yield file
    finally:
        with anyio.move_on_after(_CLEANUP_SECONDS, shield=True), suppress(httpx.HTTPError):
            await sandbox.files.remove(file)
